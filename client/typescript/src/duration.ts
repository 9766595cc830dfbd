import { create } from "@bufbuild/protobuf";
import { DurationSchema, type Duration } from "@bufbuild/protobuf/wkt";

/** A protobuf duration of so many milliseconds; the rest below a nanosecond is dropped. */
export function duration(milliseconds: number): Duration {
  const seconds = Math.trunc(milliseconds / 1000);
  const nanos = Math.trunc((milliseconds - seconds * 1000) * 1e6);
  return create(DurationSchema, { seconds: BigInt(seconds), nanos });
}

/** How many milliseconds a protobuf duration is. */
export function milliseconds(duration: Duration): number {
  return Number(duration.seconds) * 1000 + duration.nanos / 1e6;
}
