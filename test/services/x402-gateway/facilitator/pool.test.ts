import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { inspect } from "node:util";
import { expect, test } from "vitest";
import type { Authorize } from "../../../../services/x402-gateway/facilitator/authorize.ts";
import { Facilitators } from "../../../../services/x402-gateway/facilitator/pool.ts";
import { freePort } from "../../../../shared/dev/free-port.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import type { FacilitatorRequest } from "../../../../shared/payments/payment.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { systemClock } from "../../../../shared/platform/time/clock.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { recordingLog } from "../../../support/recording-log.ts";
import {
  answerJson,
  answerText,
  type Behave,
  type FaultyFacilitator,
  halfAnswer,
  never,
  PAYER,
  payingClient,
  reset,
  startFaultyFacilitator,
  TRANSACTION,
} from "./faulty-facilitator.ts";

const KIND = { scheme: "exact", network: "eip155:84532" };
const REQUEST: FacilitatorRequest = {
  x402Version: 2,
  paymentPayload: { x402Version: 2, payload: { signature: "0x1" }, unknown: [1] },
  paymentRequirements: { scheme: "exact", network: "eip155:84532" },
};

const ends = useEnds();

type Given = {
  headers?: Record<string, Secret>;
  authorize?: Authorize;
  timeoutMs?: number;
  log?: ReturnType<typeof recordingLog>;
};

async function facilitator(port?: number): Promise<FaultyFacilitator> {
  const its = await startFaultyFacilitator(port);
  ends.defer(() => its.close());
  return its;
}

function clientOf(
  urls: readonly string[],
  { headers = {}, authorize, timeoutMs = 5000, log = recordingLog() }: Given = {},
) {
  const facilitators = new Facilitators({
    facilitators: urls.map((url) => ({ url, headers })),
    authorize,
    verifyTimeoutMs: timeoutMs,
    settleTimeoutMs: timeoutMs,
    clock: systemClock,
    log,
  });
  ends.defer(() => facilitators.close());
  void facilitators.start();
  return facilitators;
}

/** A client that has read the supported kinds of all its facilitators. */
async function readyClientOf(all: readonly FaultyFacilitator[], given: Given = {}): Promise<Facilitators> {
  const facilitators = clientOf(
    all.map(({ url }) => url),
    given,
  );
  await eventually("every facilitator is known", () => facilitators.available().every(({ ok }) => ok));
  return facilitators;
}

const asksOf = (its: FaultyFacilitator, operation: string) =>
  its.asked.filter(({ path }) => path === `/base/${operation}`);

test("a payment goes to the facilitator as it was decoded, and the result names the facilitator that judged it", async () => {
  const its = await facilitator();
  const facilitators = await readyClientOf([its]);

  const judged = await facilitators.judge(REQUEST, KIND, payingClient(PAYER));
  const settled = await facilitators.settle(REQUEST, judged.url);

  expect(judged).toEqual({ verified: { kind: "valid" }, url: its.url });
  expect(settled).toEqual({ kind: "settled", transaction: TRANSACTION });
  for (const operation of ["verify", "settle"]) {
    expect(JSON.parse(asksOf(its, operation)[0]?.body ?? "")).toEqual(REQUEST);
  }
});

test("a refused payment is the payer's fault, unless the reason is one that no payer can change", async () => {
  const its = await facilitator();
  const facilitators = await readyClientOf([its]);
  const faultOf = async (invalidReason: string, status = 200) => {
    its.on("verify", answerJson({ isValid: false, invalidReason }, status));
    const { verified } = await facilitators.judge(REQUEST, KIND, payingClient(PAYER));
    return verified.kind === "refused" && verified.reason === invalidReason ? verified.fault : verified;
  };

  for (const reason of [
    "insufficient_funds",
    "invalid_exact_evm_insufficient_balance",
    "invalid_exact_evm_nonce_already_used",
    "kyt_blocked",
    "of_a_vendor",
  ]) {
    expect(await faultOf(reason)).toBe("payer");
    expect(await faultOf(reason, 400)).toBe("payer");
  }
  for (const reason of [
    "invalid_exact_evm_token_name_mismatch",
    "invalid_exact_evm_token_version_mismatch",
    "invalid_exact_evm_missing_eip712_domain",
    "asset_not_deployed_contract",
    "invalid_exact_evm_eip3009_not_supported",
    "invalid_exact_evm_network_mismatch",
    "invalid_payment_requirements",
    "unsupported_scheme",
    "invalid_network",
  ]) {
    expect(await faultOf(reason)).toBe("operator");
  }
});

const NO_ANSWERS: [string, Behave][] = [
  ["never answers", never],
  ["begins an answer and never ends it", halfAnswer],
  ["resets the connection", reset],
  [
    "answers 500 with a verdict in it",
    answerJson({ isValid: true, success: true, transaction: TRANSACTION }, 500),
  ],
  ["answers 500 with a refusal in it", answerJson({ isValid: false, success: false }, 500)],
  ["answers 500 with a page", answerText("<h1>no</h1>", 500)],
  ["answers 200 with a page", answerText("<h1>yes</h1>")],
  ["answers 429", answerJson({ isValid: false, success: false }, 429, { "Retry-After": "7" })],
  ["answers 401", answerJson({ error: "unauthorized" }, 401)],
  ["answers a redirect", answerJson({ isValid: true }, 302, { Location: "/base/elsewhere" })],
  [
    "answers a redirect with a refusal in it",
    answerJson({ isValid: false, success: false }, 302, { Location: "/base/elsewhere" }),
  ],
  ["answers a redirect that keeps the method", answerJson({}, 307, { Location: "/base/settle" })],
  ["answers a megabyte", answerText(`{"isValid":true,"success":true,"pad":"${"x".repeat(1 << 20)}"}`)],
  ["answers null", answerText("null")],
  ["answers an array", answerText('[{"isValid":true,"success":true}]')],
  ["answers an object without a verdict", answerJson({})],
  [
    "answers a verdict that is not a boolean",
    answerJson({ isValid: "true", success: "true", transaction: TRANSACTION }),
  ],
  [
    "answers valid with an error status",
    answerJson({ isValid: true, success: true, transaction: TRANSACTION }, 400),
  ],
];

test.each(NO_ANSWERS)(
  "a facilitator that %s has not verified: the next one is asked",
  async (_what, behave) => {
    const [faulty, healthy] = [await facilitator(), await facilitator()];
    const facilitators = await readyClientOf([faulty, healthy], { timeoutMs: 400 });
    faulty.on("supported", reset);
    faulty.on("verify", behave);

    const { verified, url } = await facilitators.judge(REQUEST, KIND, payingClient(PAYER));

    expect(verified.kind).toBe("valid");
    expect(url).toBe(healthy.url);
    expect(asksOf(faulty, "verify")).toHaveLength(1);
    expect(asksOf(faulty, "elsewhere")).toHaveLength(0);
  },
);

test.each(NO_ANSWERS)(
  "a settlement whose facilitator %s is unknown, and is asked for only once",
  async (_what, behave) => {
    const [faulty, healthy] = [await facilitator(), await facilitator()];
    const facilitators = await readyClientOf([faulty, healthy], { timeoutMs: 400 });
    faulty.on("settle", behave);

    expect(await facilitators.settle(REQUEST, faulty.url)).toMatchObject({ kind: "unknown" });
    expect(asksOf(faulty, "settle")).toHaveLength(1);
    expect(asksOf(healthy, "settle")).toHaveLength(0);
  },
);

test("a settlement without a well-formed transaction is unknown, and so is one refused for a reason after which it may have been sent", async () => {
  const its = await facilitator();
  const facilitators = await readyClientOf([its]);
  const settledAs = async (answer: object) => {
    its.on("settle", answerJson(answer));
    return facilitators.settle(REQUEST, its.url);
  };

  for (const transaction of ["", "0x", "0x12", `${TRANSACTION}00`, null, undefined]) {
    expect((await settledAs({ success: true, transaction })).kind).toBe("unknown");
  }
  const pending = { success: false, errorReason: "settlement_pending", transaction: TRANSACTION };
  expect(await settledAs(pending)).toEqual({
    kind: "unknown",
    reason: "settlement_pending",
    transaction: TRANSACTION,
  });
  for (const errorReason of [
    "invalid_exact_evm_nonce_already_used",
    "invalid_exact_evm_transaction_failed",
  ]) {
    expect((await settledAs({ success: false, errorReason, transaction: "" })).kind).toBe("unknown");
  }
  const refused = { success: false, errorReason: "insufficient_funds", transaction: "" };
  expect(await settledAs(refused)).toEqual({ kind: "refused", reason: "insufficient_funds" });
});

test("an answer with unknown members or with a byte order mark is read as if it had none", async () => {
  const its = await facilitator();
  const facilitators = await readyClientOf([its]);
  const more = { status: "confirmed", blockNumber: 7, receipt: { success: false }, __proto__: null };
  const settled = { success: true, transaction: TRANSACTION, ...more };
  its.on("verify", answerText(`\uFEFF${JSON.stringify({ isValid: true, ...more })}`));
  its.on("settle", answerText(`\uFEFF${JSON.stringify(settled)}`));
  expect((await facilitators.judge(REQUEST, KIND, payingClient(PAYER))).verified).toEqual({ kind: "valid" });
  const answer = { kind: "settled", transaction: TRANSACTION };
  expect(await facilitators.settle(REQUEST, its.url)).toEqual(answer);
  its.on("settle", answerText(`\uFEFF\uFEFF${JSON.stringify(settled)}`));
  expect((await facilitators.settle(REQUEST, its.url)).kind).toBe("unknown");
});

test("a settlement whose status says that it is not made yet is unknown, even if success is true, and no such status counts as paid", async () => {
  const its = await facilitator();
  const facilitators = await readyClientOf([its]);
  const settledAs = async (status: string, success: boolean, more = {}) => {
    its.on("settle", answerJson({ success, status, transaction: TRANSACTION, ...more }));
    return (await facilitators.settle(REQUEST, its.url)).kind;
  };
  for (const status of ["pending", "blocked", "deferred_until"]) {
    expect(await settledAs(status, true)).toBe("unknown");
    expect(await settledAs(status, false)).toBe("unknown");
    expect(await settledAs(status, false, { errorReason: "insufficient_funds" })).toBe("unknown");
  }
  for (const status of ["expired", "canceled"]) {
    expect(await settledAs(status, true)).toBe("unknown");
    expect(await settledAs(status, false)).toBe("refused");
  }
  expect(await settledAs("settled", true)).toBe("settled");
});

test("if no facilitator answers, the refusal says when to try again, and contains no credentials", async () => {
  const log = recordingLog();
  const [slow, throttling] = [await facilitator(), await facilitator()];
  const headers = { Authorization: new Secret("Bearer s3cret-of-ours"), "X-Key": new Secret("k-1234567") };
  const facilitators = await readyClientOf([slow, throttling], { headers, timeoutMs: 300, log });
  slow.on("verify", never);
  throttling.on("verify", answerText("", 429, { "Retry-After": "7" }));

  const error = await facilitators
    .judge(REQUEST, KIND, payingClient(PAYER))
    .catch((thrown: unknown) => thrown);

  expect(error).toMatchObject({ code: "payment.unavailable", retryAfterMs: 7000 });
  expect((error as Error).message).toMatch(/no answer within 300 ms.*status 429/);
  for (const its of [slow, throttling]) {
    for (const { headers: sent } of its.asked) {
      expect(sent).toMatchObject({ authorization: "Bearer s3cret-of-ours", "x-key": "k-1234567" });
    }
  }
  expect(inspect(error, { depth: 9 }) + log.text()).not.toMatch(/s3cret|k-1234567/);
});

test("a facilitator is named by its origin in readiness, log and refusals, because its path may hold a key", async () => {
  const log = recordingLog();
  const [port, its] = [await freePort(), await facilitator()];
  const facilitators = clientOf([`http://127.0.0.1:${port}/key-in-a-path/`, its.url], { log });
  await eventually("one is missed", () => facilitators.available()[0]?.reason?.includes("ECONNREFUSED"));
  await eventually("one is known", () => facilitators.available()[1]?.ok);
  its.on("verify", answerText("", 503));

  const error = await facilitators
    .judge(REQUEST, KIND, payingClient(PAYER))
    .catch((thrown: unknown) => thrown);
  const told = JSON.stringify(facilitators.available()) + log.text() + inspect(error, { depth: 9 });
  expect(told).not.toMatch(/key-in-a-path|base/);
  expect(facilitators.available()).toMatchObject([
    { origin: `http://127.0.0.1:${port}` },
    { origin: new URL(its.url).origin },
  ]);
});

test("a facilitator that becomes unreachable or reachable again is logged once, and is called last in between", async () => {
  const log = recordingLog();
  const [first, second] = [await facilitator(), await facilitator()];
  const facilitators = await readyClientOf([first, second], { log });
  first.on("verify", answerText("", 503));
  first.on("supported", answerText("", 503));

  for (let i = 0; i < 3; i++)
    expect((await facilitators.judge(REQUEST, KIND, payingClient(PAYER))).url).toBe(second.url);
  expect(asksOf(first, "verify")).toHaveLength(1);
  const isProbed = () => asksOf(first, "supported").length >= 3;
  await eventually("it is asked again, and again", isProbed);
  expect(facilitators.available()).toMatchObject([{ ok: false, reason: "status 503" }, { ok: true }]);

  first.on("verify", answerJson({ isValid: true }));
  first.on("supported", answerJson({ kinds: [{ x402Version: 2, ...KIND }] }));
  await eventually("the first is back", () => facilitators.available()[0]?.ok);
  expect((await facilitators.judge(REQUEST, KIND, payingClient(PAYER))).url).toBe(first.url);
  expect(log.events.map(({ event }) => event)).toEqual(["facilitator.down", "facilitator.up"]);
});

test("a facilitator that is unreachable at the start is used once it answers", async () => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/base/`;
  const facilitators = clientOf([url]);
  await eventually("it is missed", () => facilitators.available()[0]?.reason?.includes("ECONNREFUSED"));
  await expect(facilitators.judge(REQUEST, KIND, payingClient(PAYER))).rejects.toMatchObject({
    code: "payment.unavailable",
  });

  await facilitator(port);
  await eventually("it is found", () => facilitators.supports({ x402Version: 2, ...KIND }));
  expect((await facilitators.judge(REQUEST, KIND, payingClient(PAYER))).verified.kind).toBe("valid");
});

test("a payment is sent only to facilitators that support its version, scheme and network", async () => {
  const [one, two] = [await facilitator(), await facilitator()];
  one.on("supported", answerJson({ kinds: [null, 1, { x402Version: 1, scheme: "exact", network: "base" }] }));
  two.on("supported", answerJson({ kinds: [{ x402Version: 2, scheme: "exact", network: "eip155:*" }] }));
  const facilitators = await readyClientOf([one, two]);

  expect((await facilitators.judge(REQUEST, KIND, payingClient(PAYER))).url).toBe(two.url);
  expect(asksOf(one, "verify")).toHaveLength(0);
  expect(facilitators.supports({ x402Version: 1, scheme: "exact", network: "base" })).toBe(true);
  expect(facilitators.supports({ x402Version: 2, scheme: "upto", network: "eip155:1" })).toBe(false);
  expect(facilitators.supports({ x402Version: 1, scheme: "exact", network: "base-sepolia" })).toBe(false);
});

test("forty requests to a facilitator, one after the other, need at most two connections", async () => {
  const its = await facilitator();
  const facilitators = await readyClientOf([its]);
  for (let i = 0; i < 20; i++) {
    const { url } = await facilitators.judge(REQUEST, KIND, payingClient(PAYER));
    await facilitators.settle(REQUEST, url);
  }
  expect(its.connections()).toBeLessThanOrEqual(2);
});

test("a settlement for a facilitator that is no longer configured is not sent", async () => {
  const its = await facilitator();
  const facilitators = await readyClientOf([its]);
  expect((await facilitators.settle(REQUEST, "http://127.0.0.1:1/")).kind).toBe("unknown");
  expect(asksOf(its, "settle")).toHaveLength(0);
});

test("an answer with the supported kinds may have at most a megabyte", async () => {
  const its = await facilitator();
  const kinds = Array.from({ length: 10_000 }, (_, i) => ({
    ...{ x402Version: 2, scheme: "exact", network: `eip155:${i + 1}`, extra: { feePayer: "" } },
  }));
  expect(JSON.stringify({ kinds }).length).toBeGreaterThan(700 * 1024);
  its.on("supported", answerJson({ kinds }));
  const facilitators = await readyClientOf([its]);
  expect(facilitators.supports({ x402Version: 2, scheme: "exact", network: "eip155:10000" })).toBe(true);

  const longer = await facilitator();
  longer.on("supported", answerJson({ kinds, pad: "x".repeat(512 * 1024) }));
  const other = clientOf([longer.url]);
  await eventually("it is too long", () =>
    other.available()[0]?.reason?.includes("its answer is longer than 1048576 bytes"),
  );
});

test("a redirect is not followed, and the log has its target, without the path if the configured URL may contain a key", async () => {
  const log = recordingLog();
  const [its, elsewhere] = [await facilitator(), await facilitator()];
  const facilitators = await readyClientOf([its], { log });
  its.on("supported", reset);
  const target = elsewhere.url.replace("://", "://user:password@");
  const reasonOf = async (Location: string) => {
    its.on("verify", answerJson({}, 302, { Location }));
    const error = await facilitators
      .judge(REQUEST, KIND, payingClient(PAYER))
      .catch((thrown: unknown) => thrown);
    return (error as Error).message.replace(new URL(its.url).origin, "ITS");
  };
  const { origin } = new URL(elsewhere.url);
  expect(await reasonOf(`${target}v3/verify?key=secret#secret`)).toBe(`ITS: status 302 to ${origin}/…`);
  // The path is left out, because it may repeat the configured path "/base" in another encoding.
  expect(await reasonOf("https://new.example/b%61se/verify?a=b")).toBe(
    "ITS: status 302 to https://new.example/…",
  );
  expect(await reasonOf("http://[")).toBe("ITS: status 302");
  expect(elsewhere.asked.filter(({ path }) => !path.endsWith("/supported"))).toEqual([]);
  const [lost] = log.events;
  expect(lost).toMatchObject({
    event: "facilitator.down",
    fields: { reason: `status 302 to ${origin}/…` },
  });
});

test("the log has the whole target of a redirect if the facilitator's own URL has no path", async () => {
  const moved = createServer((_req, res) => res.writeHead(302, { Location: "/x402/supported?a=b" }).end());
  await once(moved.listen(0, "127.0.0.1"), "listening");
  ends.defer(() => moved.close());
  const url = `http://127.0.0.1:${(moved.address() as AddressInfo).port}`;
  const facilitators = clientOf([url]);
  await eventually("it has answered", () =>
    facilitators.available()[0]?.reason?.includes(`status 302 to ${url}/x402/supported`),
  );
});

test("a kind can be offered if some facilitator supports it, or has not reported its kinds yet", async () => {
  const its = await facilitator();
  const port = await freePort();
  const facilitators = clientOf([its.url, `http://127.0.0.1:${port}/base/`]);
  await eventually("one is known", () => facilitators.available()[0]?.ok);
  const before = facilitators.offerable();
  const elsewhere = { x402Version: 2, scheme: "exact", network: "eip155:1" } as const;
  expect(before.supports(elsewhere)).toBe(true);
  expect(facilitators.offerable()).toBe(before);

  const late = await facilitator(port);
  await eventually("both are known", () => facilitators.available()[1]?.ok);
  const after = facilitators.offerable();
  expect(after).not.toBe(before);
  expect([after.supports(elsewhere), after.supports({ x402Version: 2, ...KIND })]).toEqual([false, true]);
  expect(after.supports({ x402Version: 1, ...KIND })).toBe(false);

  // A facilitator that becomes unreachable keeps its reported kinds.
  await late.close();
  its.on("verify", reset);
  await facilitators.judge(REQUEST, KIND, payingClient(PAYER)).catch(() => {});
  expect(facilitators.offerable().supports(elsewhere)).toBe(false);
});
