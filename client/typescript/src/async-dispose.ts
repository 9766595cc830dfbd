/** `Symbol.asyncDispose`, also where the platform does not have it yet (browsers before 2025). */
export const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose");
