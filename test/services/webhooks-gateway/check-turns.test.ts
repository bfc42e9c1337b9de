import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { createCheckTurns } from "../../../services/webhooks-gateway/check-turns.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { onlyInLongRun } from "../../support/long-run.ts";

const HOSTILE = "192.0.2.1";

/** Keeps the process busy, as parsing does. */
function work(ms: number): void {
  for (const until = performance.now() + ms; performance.now() < until; );
}

function refuse(ms: number) {
  return () => {
    work(ms);
    throw AppError.public("webhook.credential_rejected", "wrong");
  };
}

function setUp() {
  const turns = createCheckTurns();
  const requestOf = (clientKey: string, bytes: number) => {
    const res = new EventEmitter();
    let cut = (_refusal: AppError): void => {};
    const lease = {
      wait(onCut: typeof cut) {
        cut = onCut;
        return () => {};
      },
    };
    return {
      request: { res: res as ServerResponse, clientKey, lease, bytes },
      hangUp: () => res.emit("close"),
      cut: (refusal: AppError) => cut(refusal),
    };
  };
  const useUp = () => expect(turns.run(requestOf(HOSTILE, 1).request, refuse(80))).rejects.toThrow();
  return { turns, requestOf, useUp };
}

test("checks that refuse take a quarter of the time at most", async () => {
  const { turns, requestOf } = setUp();
  const begun = performance.now();
  await Promise.allSettled(
    Array.from({ length: 20 }, () => turns.run(requestOf("192.0.2.2", 1).request, refuse(20))),
  );
  // The last check is paid for afterwards, and 100 ms are in advance.
  expect(performance.now() - begun).toBeGreaterThan(19 * 20 * 4 - 100);
});

test("checks that hold take nothing of that time", async () => {
  const { turns, requestOf } = setUp();
  let held = 0;
  const hold = (): void => {
    work(20);
    held += 1;
  };
  for (let i = 0; i < 20; i++) {
    const running = turns.run(requestOf(HOSTILE, 1).request, hold);
    expect(held).toBe(i + 1);
    await running;
  }
});

test("those that wait are checked by size, and those of addresses with refusals last", async () => {
  const { turns, requestOf, useUp } = setUp();
  await useUp();
  const order: string[] = [];
  const wait = (name: string, address: string, bytes: number) =>
    turns.run(requestOf(address, bytes).request, () => void order.push(name));
  await Promise.all([
    wait("a large one of the hostile address", HOSTILE, 100),
    wait("a small one of the hostile address", HOSTILE, 1),
    wait("the next small one of the hostile address", HOSTILE, 1),
    wait("a large one", "192.0.2.2", 1000),
    wait("a small one", "192.0.2.3", 10),
  ]);
  expect(order).toEqual([
    "a small one",
    "a large one",
    "a small one of the hostile address",
    "the next small one of the hostile address",
    "a large one of the hostile address",
  ]);
});

test("a request that waits and whose body is cut, or whose client hangs up, is not checked", async () => {
  const { turns, requestOf, useUp } = setUp();
  await useUp();
  const { request: first, cut } = requestOf("192.0.2.2", 1);
  const { request: second, hangUp } = requestOf("192.0.2.2", 1);
  const never = () => expect.unreachable();
  const waiting = Promise.allSettled([turns.run(first, never), turns.run(second, never)]);
  const refusal = new AppError("request.over_budget", { reason: "no room" });
  cut(refusal);
  hangUp();
  expect(await waiting).toEqual([
    { status: "rejected", reason: refusal },
    { status: "rejected", reason: expect.objectContaining({ code: "request.over_budget" }) },
  ]);
});

onlyInLongRun(() => {
  test("a request that waits in vain for its turn is refused with 503", { timeout: 30_000 }, async () => {
    const { turns, requestOf } = setUp();
    await expect(turns.run(requestOf("192.0.2.9", 1).request, refuse(1000))).rejects.toThrow("wrong");
    const [small, large] = [requestOf("192.0.2.9", 1), requestOf("192.0.2.9", 2)];
    const ended = await Promise.allSettled([
      turns.run(small.request, refuse(1000)),
      turns.run(large.request, () => expect.unreachable()),
    ]);
    expect(ended).toMatchObject([
      { reason: { code: "webhook.credential_rejected" } },
      { reason: { code: "request.over_budget" } },
    ]);
  });
});
