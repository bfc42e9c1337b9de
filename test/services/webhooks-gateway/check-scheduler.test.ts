import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { createCheckScheduler } from "../../../services/webhooks-gateway/check-scheduler.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { LONG_RUN, onlyInLongRun } from "../../support/long-run.ts";

const HOSTILE = "192.0.2.1";

/** Number of checks of 20 ms each, which take longer than the 100 ms that may be used in advance. */
const CHECKS = LONG_RUN ? 20 : 8;

/** Blocks the process, as parsing does. */
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
  const scheduler = createCheckScheduler();
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
  const useUp = () => expect(scheduler.run(requestOf(HOSTILE, 1).request, refuse(80))).rejects.toThrow();
  return { scheduler, requestOf, useUp };
}

test("failing checks use at most a quarter of the process's time", async () => {
  const { scheduler, requestOf } = setUp();
  const begun = performance.now();
  await Promise.allSettled(
    Array.from({ length: CHECKS }, () => scheduler.run(requestOf("192.0.2.2", 1).request, refuse(20))),
  );
  // The last check is charged only after it ran, and 100 ms may be used in advance.
  expect(performance.now() - begun).toBeGreaterThan((CHECKS - 1) * 20 * 4 - 100);
});

test("a check that fails in its second part is charged for both parts", async () => {
  const { scheduler, requestOf } = setUp();
  const { request } = requestOf(HOSTILE, 1);
  await scheduler.run(request, () => work(100));
  await expect(scheduler.run(request, refuse(0))).rejects.toThrow();
  const begun = performance.now();
  await scheduler.run(requestOf("192.0.2.2", 1).request, () => {});
  expect(performance.now() - begun).toBeGreaterThan(100 * 4 - 100 - 50);
});

test("checks that succeed are not charged", async () => {
  const { scheduler, requestOf } = setUp();
  let held = 0;
  const hold = (): void => {
    work(20);
    held += 1;
  };
  for (let i = 0; i < CHECKS; i++) {
    const running = scheduler.run(requestOf(HOSTILE, 1).request, hold);
    expect(held).toBe(i + 1);
    await running;
  }
});

test("waiting checks run in the order of their body size, and those of addresses with refusals run last", async () => {
  const { scheduler, requestOf, useUp } = setUp();
  await useUp();
  const order: string[] = [];
  const wait = (name: string, address: string, bytes: number) =>
    scheduler.run(requestOf(address, bytes).request, () => void order.push(name));
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

test("a waiting request whose body is cut or whose client hangs up is not checked", async () => {
  const { scheduler, requestOf, useUp } = setUp();
  await useUp();
  const { request: first, cut } = requestOf("192.0.2.2", 1);
  const { request: second, hangUp } = requestOf("192.0.2.2", 1);
  const never = () => expect.unreachable();
  const waiting = Promise.allSettled([scheduler.run(first, never), scheduler.run(second, never)]);
  const refusal = new AppError("request.over_budget", { reason: "no room" });
  cut(refusal);
  hangUp();
  expect(await waiting).toEqual([
    { status: "rejected", reason: refusal },
    { status: "rejected", reason: expect.objectContaining({ code: "request.over_budget" }) },
  ]);
});

onlyInLongRun(() => {
  test("a request that waits too long for its check is refused with 503", { timeout: 30_000 }, async () => {
    const { scheduler, requestOf } = setUp();
    await expect(scheduler.run(requestOf("192.0.2.9", 1).request, refuse(1000))).rejects.toThrow("wrong");
    const [small, large] = [requestOf("192.0.2.9", 1), requestOf("192.0.2.9", 2)];
    const ended = await Promise.allSettled([
      scheduler.run(small.request, refuse(1000)),
      scheduler.run(large.request, () => expect.unreachable()),
    ]);
    expect(ended).toMatchObject([
      { reason: { code: "webhook.credential_rejected" } },
      { reason: { code: "request.over_budget" } },
    ]);
  });
});
