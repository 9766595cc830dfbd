import assert from "node:assert/strict";
import { test } from "node:test";

import { ListwatchError } from "../../src/error.js";
import { EventType } from "../../src/gen/listwatch/v1/listwatch_pb.js";
import { isOpened, translate, type Phase } from "../../src/watcher/phase.js";
import { Told } from "../../src/watcher/told.js";
import { pod, response } from "./responses.js";

const PHASES: Phase[] = ["openedForState", "openedAfter", "initial", "net", "manifest", "live"];
const nothing = new Told();

function kinds(phase: Phase, ...given: Parameters<typeof response>) {
  const { events, phase: after } = translate(phase, response(...given), nothing);
  return [...events.map((event) => event.type), after];
}

test("a begin opens its phase wherever the stream is", () => {
  for (const phase of PHASES) {
    assert.deepEqual(kinds(phase, [], "INITIAL_STATE_BEGIN"), ["initBegin", "initial"]);
    assert.deepEqual(kinds(phase, [], "NET_BEGIN"), ["netBegin", "net"]);
    assert.deepEqual(kinds(phase, [], "MANIFEST_BEGIN"), ["manifestBegin", "manifest"]);
  }
});

test("an end is a point of what began", () => {
  assert.deepEqual(kinds("initial", [], "INITIAL_STATE_END"), ["initDone", "live"]);
  assert.deepEqual(kinds("net", [], "INITIAL_STATE_END"), ["caughtUp", "live"]);
  assert.deepEqual(kinds("manifest", [], "INITIAL_STATE_END"), ["caughtUp", "live"]);
});

test("the first bookmark of a resumed stream says so, whatever its kind", () => {
  for (const kind of ["RESUMED", "PROGRESS", "UNSPECIFIED"] as const) {
    assert.deepEqual(kinds("openedAfter", [], kind), ["resumed", "live"]);
  }
});

test("within what has begun a bookmark is a sign of life and nothing else", () => {
  for (const phase of ["initial", "net", "manifest"] as const) {
    for (const kind of ["PROGRESS", "GOING_AWAY", "RESUMED"] as const) {
      assert.deepEqual(kinds(phase, [], kind), [phase]);
    }
  }
});

test("going away is a point, unless it is the first word", () => {
  assert.deepEqual(kinds("live", [], "GOING_AWAY"), ["bookmark", "live"]);
  for (const phase of PHASES.filter(isOpened)) {
    const translated = translate(phase, response([], "GOING_AWAY", 3), nothing);
    assert.deepEqual(translated, { phase, events: [], goingAway: true });
  }
});

test("breaches of the protocol are errors", () => {
  const breach = (phase: Phase, ...given: Parameters<typeof response>) =>
    assert.throws(() => kinds(phase, ...given), ListwatchError);
  breach("openedForState", [["EXISTING", pod("a", 1)]]);
  breach("openedAfter", [["ADDED", pod("a", 1)]], "RESUMED");
  breach("openedForState", [], "PROGRESS");
  breach("openedForState", [], "RESUMED");
  breach("openedForState", [], "INITIAL_STATE_END");
  breach("openedAfter", [], "INITIAL_STATE_END");
});

test("what an event means depends on its type, and within the initial state on nothing else", () => {
  const change = (phase: Phase, type: keyof typeof EventType | number) => {
    const given = response([["ADDED", pod("a", 1)]]);
    const wire = given.events[0];
    assert.ok(wire);
    wire.type = typeof type === "number" ? type : EventType[type];
    const [event] = translate(phase, given, nothing).events;
    return event?.type === "apply" ? event.change : event?.type;
  };
  assert.equal(change("live", "ADDED"), "added");
  assert.equal(change("live", "MODIFIED"), "modified");
  assert.equal(change("live", "UPSERTED"), "upserted");
  assert.equal(change("live", "EXISTING"), "upserted");
  assert.equal(change("live", 99), "modified");
  assert.equal(change("live", "UNSPECIFIED"), "modified");
  assert.equal(change("live", "DELETED"), "delete");
  assert.equal(change("manifest", "UNCHANGED"), "unchanged");
  assert.equal(change("initial", "EXISTING"), "initApply");
  assert.equal(change("initial", "MODIFIED"), "initApply");
  assert.equal(change("initial", "DELETED"), "delete");
});

test("an event without an object or without a key is passed over", () => {
  const given = response([["ADDED", pod("a", 1)], ["ADDED", pod("b", 2)]], "PROGRESS", 2);
  delete given.events[0]?.resource;
  delete given.events[1]?.resource?.key;
  const { events } = translate("live", given, nothing);
  assert.deepEqual(events.map((event) => event.type), ["bookmark"]);
});

test("what was told is left out of changes, and out of nothing else", () => {
  const told = new Told();
  told.record(pod("a", 7));
  const changes = response([["ADDED", pod("b", 6)], ["ADDED", pod("a", 7)], ["ADDED", pod("c", 7)]]);
  const names = (phase: Phase) =>
    translate(phase, changes, told).events.map((event) =>
      "object" in event ? event.object.key?.name : event.type,
    );
  assert.deepEqual(names("live"), ["c"]);
  assert.deepEqual(names("net"), ["b", "a", "c"]);
});
