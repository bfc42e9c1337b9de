/*
 * Vitest ends its workers with SIGTERM, for which Node runs no exit handlers. A worker would leave its Redis, its
 * anvil and its folders behind. This file is loaded for each test file, and a worker runs many of them.
 */
const IS_SET_UP = Symbol.for("postern.test-worker");

if (!Object.hasOwn(globalThis, IS_SET_UP)) {
  Object.defineProperty(globalThis, IS_SET_UP, { value: true });
  process.once("SIGTERM", () => {
    process.emit("exit", 0);
    process.kill(process.pid, "SIGKILL"); // process.exit may be Vitest's own, which throws
  });
}
