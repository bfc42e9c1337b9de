import { inspect } from "node:util";
import { expect, test } from "vitest";
import type { Authorize, FacilitatorCall } from "../../../../services/x402-gateway/facilitator/authorize.ts";
import { Facilitators } from "../../../../services/x402-gateway/facilitator/pool.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import type { FacilitatorRequest } from "../../../../shared/payments/payment.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { systemClock } from "../../../../shared/platform/time/clock.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { recordingLog } from "../../../support/recording-log.ts";
import {
  answerText,
  type FaultyFacilitator,
  PAYER,
  payingClient,
  startFaultyFacilitator,
  TRANSACTION,
} from "./faulty-facilitator.ts";

const KIND = { scheme: "exact", network: "eip155:84532" };
const REQUEST: FacilitatorRequest = {
  ...{ x402Version: 2, paymentPayload: { x402Version: 2, payload: {} }, paymentRequirements: KIND },
};

const ends = useEnds();

type Given = { headers?: Readonly<Record<string, Secret>>[]; authorize?: Authorize };

/** Starts facilitators, each with its own headers, and a client of all of them. */
async function clientOf(count: number, { headers = [], authorize }: Given) {
  const all = await Promise.all(Array.from({ length: count }, () => startFaultyFacilitator()));
  const log = recordingLog();
  const facilitators = new Facilitators({
    facilitators: all.map(({ url }, index) => ({ url, headers: headers[index] ?? {} })),
    ...{ authorize, verifyTimeoutMs: 300, settleTimeoutMs: 300, clock: systemClock, log },
  });
  for (const its of all) ends.defer(() => its.close());
  ends.defer(() => facilitators.close());
  void facilitators.start();
  await eventually("all are known", () => facilitators.available().every(({ ok }) => ok));
  return { all: all as [FaultyFacilitator, ...FaultyFacilitator[]], facilitators, log };
}

const pathsOf = (its: FaultyFacilitator) => its.asked.map(({ path }) => path);

test("a facilitator gets its own credentials, and never those of another", async () => {
  const headers = [{ authorization: new Secret("first's") }, { "x-key": new Secret("second's") }];
  const { all, facilitators } = await clientOf(2, { headers });
  const [first, second] = all as [FaultyFacilitator, FaultyFacilitator];
  first.on("verify", answerText("", 503));
  expect((await facilitators.judge(REQUEST, KIND, payingClient(PAYER))).url).toBe(second.url);
  for (const { url } of all) await facilitators.settle(REQUEST, url);

  for (const its of all)
    expect(new Set(pathsOf(its))).toEqual(new Set(["/base/supported", "/base/verify", "/base/settle"]));
  for (const { headers: sent } of first.asked) {
    expect(sent.authorization).toBe("first's");
    expect(sent["x-key"]).toBeUndefined();
  }
  for (const { headers: sent } of second.asked) {
    expect(sent["x-key"]).toBe("second's");
    expect(sent.authorization).toBeUndefined();
  }
});

test("the authorize hook is called for each request to each facilitator, and its headers are added to the others", async () => {
  const calls: FacilitatorCall[] = [];
  const { all, facilitators } = await clientOf(2, {
    headers: [{ "x-key": new Secret("its own"), authorization: new Secret("replaced") }],
    authorize: async (call) => {
      calls.push(call);
      return { Authorization: `for ${call.method} ${call.host}${call.path}` };
    },
  });
  await facilitators.judge(REQUEST, KIND, payingClient(PAYER));
  await facilitators.settle(REQUEST, all[0].url);

  for (const its of all) {
    const { host } = new URL(its.url);
    for (const { method, path, headers } of its.asked)
      expect(headers.authorization).toBe(`for ${method} ${host}${path}`);
  }
  expect(all[0].asked.map(({ headers }) => headers["x-key"])).toEqual(Array(3).fill("its own"));
  const { url: facilitator } = all[0];
  const { host } = new URL(facilitator);
  const its = calls.filter((call) => call.facilitator === facilitator);
  expect(its).toEqual([
    { facilitator, host, operation: "supported", method: "GET", path: "/base/supported", body: undefined },
    ...(["verify", "settle"] as const).map((operation) => ({
      ...{ facilitator, host, operation, method: "POST", path: `/base/${operation}` },
      body: all[0].asked.find(({ path }) => path === `/base/${operation}`)?.body,
    })),
  ]);
});

const CANARY = "canary-token";
const ILL_HOOKS: [string, () => Promise<unknown>][] = [
  ["throws", () => Promise.reject(new TypeError(`no key for ${CANARY}`))],
  [
    "throws at once",
    () => {
      throw new Error(CANARY);
    },
  ],
  ["is late", () => new Promise(() => {})],
  ["returns a header that the gateway sets", async () => ({ Host: CANARY })],
  ["returns a header of two lines", async () => ({ authorization: `${CANARY}\r\nx: y` })],
  ["returns a header that is not a string", async () => ({ authorization: [CANARY] })],
  ["returns nothing", async () => undefined],
];

test.each(ILL_HOOKS)(
  "an authorize hook that %s sends nothing: there is no verdict, the settlement is unknown, and no token is in a log",
  async (_what, ill) => {
    let illAt: string | undefined;
    const authorize = async ({ facilitator }: FacilitatorCall) =>
      (facilitator === illAt ? await ill() : { authorization: CANARY }) as Record<string, string>;
    const { all, facilitators, log } = await clientOf(2, { authorize });
    const [first] = all;
    illAt = first.url;

    expect((await facilitators.judge(REQUEST, KIND, payingClient(PAYER))).url).toBe(all[1]?.url);
    const settled = await facilitators.settle(REQUEST, first.url);
    expect(settled).toMatchObject({ kind: "unknown", reason: expect.any(String) });
    expect(pathsOf(first).filter((path) => path !== "/base/supported")).toEqual([]);
    expect(log.events.map(({ event }) => event)).toContain("facilitator.down");
    const told = log.text() + inspect([settled, facilitators.available()], { depth: 9 });
    expect(told).not.toContain(CANARY);
  },
);

test("the time limit of an operation includes the authorize hook", async () => {
  const held: (() => void)[] = [];
  const authorize: Authorize = async ({ operation }) => {
    if (operation === "settle") await new Promise<void>((resolve) => void held.push(resolve));
    return {};
  };
  const { all, facilitators } = await clientOf(1, { authorize });
  const [its] = all;
  expect(await facilitators.settle(REQUEST, its.url)).toEqual({
    kind: "unknown",
    reason: "its credentials were not ready in time, so nothing was sent",
  });
  held.shift()?.(); // releases the first settle request too late
  const next = facilitators.settle(REQUEST, its.url);
  await eventually("the hook is asked again", () => held.length === 1);
  held.shift()?.();
  expect(await next).toEqual({ kind: "settled", transaction: TRANSACTION });
  expect(pathsOf(its).filter((path) => path === "/base/settle")).toHaveLength(1);
});
