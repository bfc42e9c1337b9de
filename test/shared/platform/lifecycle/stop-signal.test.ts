import { expect, test } from "vitest";
import { withStopSignal } from "../../../../shared/platform/lifecycle/run-service.ts";

const SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"] as const;
const listeners = () => SIGNALS.map((signal) => process.listenerCount(signal));

test.each(["ends", "fails"])("work that %s leaves no listener of a signal behind", async (how) => {
  const before = listeners();
  const work = withStopSignal(async () => {
    expect(listeners()).toEqual(before.map((count) => count + 1));
    if (how === "fails") throw new Error("it fails");
  });
  await (how === "fails" ? expect(work).rejects.toThrow("it fails") : work);
  expect(listeners()).toEqual(before);
});
