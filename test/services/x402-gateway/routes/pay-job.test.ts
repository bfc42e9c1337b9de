import type { PaymentPayload, PaymentRequirements } from "@x402/core/types";
import { appendPaymentIdentifierToExtensions } from "@x402/extensions/payment-identifier";
import { generatePrivateKey } from "viem/accounts";
import { describe, expect, test } from "vitest";
import { Refused } from "../../../../services/producer/producer.ts";
import { createResults } from "../../../../shared/call/results/store.ts";
import { createSigner } from "../../../../shared/chain/signatures.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useFakeRunner } from "../../../fixtures/fake-runner.ts";
import { useProducer } from "../../../fixtures/producer.ts";
import { keys } from "../../../fixtures/redis.ts";
import {
  idIn,
  inTime,
  JOB_PATH,
  PRICE,
  PUBLIC_URL,
  requiredIn,
  signOffer,
  type TestX402,
  useX402,
} from "../../../fixtures/x402.ts";
import { newPayer } from "../../../support/devnet.ts";
import { type Answer, openRaw, send } from "../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { deliverResultOn } from "../../../support/results.ts";
import { signInAs, signInAskedBy } from "../../../support/sign-in.ts";
import { authorizationIn, signPayment } from "../../../support/sign-payment.ts";
import { DECLARED, declaring, ENDLESS, FITS, UNFIT } from "../job-inputs.ts";
import { honouringQuotes, QUOTED, quoteOf, signQuote } from "../operator-quotes.ts";
import { BY_PAYER, DELEGATED, proofOf, restrictedJobs } from "../restricted-jobs.ts";
import { delivered, settlementIn, untilWaiting, usePreferWait, WAIT } from "./pay-job/prefer-wait.ts";

const fixture = useX402();
const waits = usePreferWait(fixture);

describe("200", () => {
  describe("a client that prefers to wait gets from the request that pays", () => {
    const VERSIONS = [
      { version: 2, header: "payment-response" },
      { version: 1, header: "x-payment-response" },
    ];
    test.each(sample(VERSIONS))(
      "the runner's status, type and body, and that it was paid (version $version)",
      async (by) => {
        const x402 = await fixture.gateway();
        const body = Buffer.from([0, 1, 2, 255]);
        await waits.inject(async () => ({ status: 201, contentType: "image/x", body }));
        const answer = await x402.post({ ...(await waits.payment(x402, { v1: by.version === 1 })), ...WAIT });
        expect([answer.status, answer.headers["content-type"], answer.body]).toEqual([201, "image/x", body]);
        expect(settlementIn(answer, by.header)).toMatchObject({
          success: true,
          payer: fixture.payer.address.toLowerCase(),
        });
        const resultUrl = String(answer.headers["content-location"]);
        expect(answer.headers).toMatchObject({
          ...{
            "preference-applied": "wait=30",
            "access-control-allow-origin": "*",
            "cache-control": "no-store",
          },
          "content-location": expect.stringMatching(
            /^http:\/\/pay\.test\/x402\/calls\/c_[0-9a-f]{32}\/result$/,
          ),
        });
        expect(answer.headers).not.toHaveProperty("location");
        const asked = await send(x402.address, { method: "GET", path: resultUrl.replace(PUBLIC_URL, "") });
        expect(asked.status, "a repeat without a proof gets no result, although it was sent before").toBe(
          402,
        );
      },
    );

    test("the result of a long job that its runner delivers meanwhile", async () => {
      const x402 = await fixture.gateway();
      const results = createResults(fixture.redis.partition);
      const deliver = deliverResultOn(fixture.redis.partition);
      const ids: string[] = [];
      await waits.inject(async ({ call }) => {
        ids.push(call.id);
        return { status: 202 };
      });
      const headers = await waits.payment(x402);
      const answer = x402.post({ ...headers, ...WAIT });
      await eventually("the runner has it", async () => (await results.state(ids[0] ?? "")) === "INJECTED");
      expect(x402.gateway.waiting()).toBe(1);
      await deliver(ids[0] ?? "", delivered("at last"));
      expect([(await answer).status, (await answer).text]).toEqual([200, "at last"]);
    });
  });

  onlyInLongRun(() => {
    test("preferences in several headers, beside others, are read as one list", async () => {
      const x402 = await fixture.gateway();
      await waits.inject(async () => ({ status: 200, body: "done" }));
      const { "PAYMENT-SIGNATURE": signed = "" } = await waits.payment(x402);
      const prefer = ["Prefer", "respond-async", "Prefer", "handling=lenient, wait=20"];
      const answer = await send(x402.address, {
        path: JOB_PATH,
        headers: ["PAYMENT-SIGNATURE", signed, ...prefer],
        body: "hello",
      });
      expect([answer.text, answer.headers["preference-applied"]]).toEqual(["done", "wait=20"]);
    });
  });

  describe("a repeat of a payment", () => {
    test("with the call's token waits too, and gets the result", async () => {
      const x402 = await fixture.gateway();
      const headers = await x402.pay({ payer: fixture.payer });
      const token = String((await x402.post(headers)).json()["result_token"]);
      const again = x402.post({ ...headers, ...WAIT, Authorization: `Bearer ${token}` });
      await untilWaiting(x402, 1);
      await waits.endAll(x402);
      expect([(await again).status, (await again).text]).toEqual([200, "done"]);
      expect((await again).headers).toMatchObject({
        ...{ "idempotent-replayed": "true", "preference-applied": "wait=30" },
        "payment-response": expect.any(String),
      });
      const other = await x402.post(await x402.pay({ payer: await newPayer(fixture.devnet) }));
      const stranger = await x402.post({
        ...{ ...headers, ...WAIT },
        Authorization: `Bearer ${String(other.json()["result_token"])}`,
      });
      expect(stranger.status).toBe(202);
    });

    onlyInLongRun(() => {
      test("with a sign-in as its payer waits too, and gets the result", async () => {
        const x402 = await fixture.gateway();
        const headers = await x402.pay({ payer: fixture.payer });
        const id = String((await x402.post(headers)).json()["call_id"]);
        await waits.endAll(x402);
        const path = `/x402/calls/${id}/result`;
        const challenge = await send(x402.address, { method: "GET", path });
        const signed = await signInAs(signInAskedBy(challenge), { payer: fixture.payer });
        const answer = await x402.post({ ...headers, ...WAIT, ...signed });
        expect([answer.status, answer.text]).toEqual([200, "done"]);
      });
    });
  });
});

describe("400", () => {
  /** Makes a payment in each version. */
  async function payments(x402: TestX402) {
    const { "PAYMENT-SIGNATURE": v2 = "" } = await x402.pay({ payer: fixture.payer });
    const { "X-PAYMENT": v1 = "" } = await x402.payV1({ payer: fixture.payer });
    return { v1, v2 };
  }

  const AMBIGUOUS: readonly [string, (v1: string, v2: string) => string[]][] = [
    ["one payment of each version", (v1: string, v2: string) => ["PAYMENT-SIGNATURE", v2, "X-PAYMENT", v1]],
    ["the same payment twice", (_: string, v2: string) => ["PAYMENT-SIGNATURE", v2, "payment-signature", v2]],
    ["a version 1 payment twice", (v1: string) => ["X-PAYMENT", v1, "X-Payment", v1]],
    [
      "one valid payment and an invalid one",
      (_: string, v2: string) => ["PAYMENT-SIGNATURE", v2, "X-PAYMENT", "bad"],
    ],
  ];
  test.each(sample(AMBIGUOUS))(
    "a request with %s is refused with 400, and no payment in it is used",
    async (_what, headersOf) => {
      const x402 = await fixture.gateway();
      const { v1, v2 } = await payments(x402);
      const answer = await send(x402.address, { path: JOB_PATH, headers: headersOf(v1, v2), body: "hello" });
      expect([answer.status, answer.json()["code"]]).toEqual([400, "payment.ambiguous"]);
      expect(answer.headers["payment-required"]).toBeUndefined();
      expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
      expect(await fixture.charged()).toEqual([]);
    },
  );

  test("a paid request with an unreadable operator's quote is refused with 400", async () => {
    const x402 = await fixture.gateway(honouringQuotes);
    const headers = { ...(await x402.pay({ payer: fixture.payer })), "X-PLATFORM-QUOTE": "e30=" };
    const answer = await x402.post(headers);
    expect([answer.status, answer.json()["code"]]).toEqual([400, "quote.malformed"]);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  });

  test("a paid request with wrong chunked coding is refused with 400, and not charged", async () => {
    const x402 = await fixture.gateway();
    const { v2 } = await payments(x402);
    const head = `POST ${JOB_PATH} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nPAYMENT-SIGNATURE: ${v2}\r\n\r\n`;
    const raw = openRaw(x402.address, `${head}no number\r\n`);
    await expect.poll(raw.received, { timeout: 15_000 }).toMatch(/\}$/);
    expect(raw.received()).toMatch(/^HTTP\/1\.1 400 [\s\S]*"code":"request\.malformed"/);
    raw.socket.destroy();
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  });
});

describe("402", () => {
  const OTHER = "0x2222222222222222222222222222222222222222";
  const now = () => BigInt(Math.floor(Date.now() / 1000));

  /** Expects a 402 with this code and a new offer. */
  function expectRefused(answer: Answer, code: string): void {
    expect([answer.status, answer.json()["code"]]).toEqual([402, code]);
    expect(requiredIn(answer).error).toMatch(new RegExp(`^${code}: `));
    expect(requiredIn(answer).accepts).toHaveLength(1);
  }

  describe("a payment that is invalid for every job", () => {
    const payWith = (choice: object) => (x402: TestX402) => x402.pay({ payer: fixture.payer, ...choice });
    const wrong: Record<string, [(x402: TestX402) => Promise<Record<string, string>>, string]> = {
      "is unreadable": [async () => ({ "PAYMENT-SIGNATURE": "AAAA" }), "payment.malformed"],
      "pays another recipient": [payWith({ to: OTHER }), "payment.not_offered"],
      "lasts for a year": [payWith({ validBefore: now() + 31_536_000n }), "payment.window_unusable"],
      "is signed for another token": [payWith({ name: "USD Coin" }), "payment.signature_invalid"],
      "pays a quote that has expired": [
        async (x402) => {
          const offer = (await x402.ask()).v2.accepts[0] as PaymentRequirements;
          x402.skip(41_000);
          const choice = { payer: fixture.payer, validBefore: now() + 160n };
          return { "PAYMENT-SIGNATURE": (await signPayment(offer, choice)).header };
        },
        "payment.quote_expired",
      ],
    };
    test.each(sample(Object.entries(wrong), 2))(
      "a payment that %s is refused with 402 and a new offer, and no facilitator is asked",
      async (_what, [pay, code]) => {
        const x402 = await fixture.gateway({ x402: { quote_ttl_secs: 30 } });
        expectRefused(await x402.post(await pay(x402)), code);
        expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
        expect(await fixture.charged()).toEqual([]);
      },
    );
  });

  test("the new offer in the 402 for an expired quote can be paid", async () => {
    const x402 = await fixture.gateway({ x402: { quote_ttl_secs: 30 } });
    const [offer] = (await x402.ask()).v2.accepts;
    x402.skip(41_000);
    const later = { payer: fixture.payer, validBefore: now() + 160n };
    const { header } = await signPayment(offer as PaymentRequirements, later);
    const refused = await x402.post({ "PAYMENT-SIGNATURE": header });
    expectRefused(refused, "payment.quote_expired");
    const [renewed] = requiredIn(refused).accepts;
    const again = await signPayment(renewed as PaymentRequirements, later);
    expect((await x402.post({ "PAYMENT-SIGNATURE": again.header })).status).toBe(202);
  });

  test("a payment that the facilitator refuses is refused with 402 and the facilitator's reason, and nothing is settled", async () => {
    const x402 = await fixture.gateway();
    const headers = await x402.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault({ on: "verify", kind: "refuse", reason: "insufficient_funds" });
    const answer = await x402.post(headers);
    expectRefused(answer, "payment.rejected");
    expect(answer.json()["detail"]).toContain("insufficient_funds");
    expect(await fixture.asked()).toEqual({ verify: 1, settle: 0 });
  });

  test.each(sample(["pay", "payV1"] as const))(
    "a payer without the money is refused with 402 before anything is claimed (%s)",
    async (pay) => {
      const x402 = await fixture.gateway({ prices: { "7": "1000000000000000000000" } });
      const answer = await x402.post(await x402[pay]({ payer: fixture.payer }));
      expectRefused(answer, "payment.rejected");
      expect(answer.json()["detail"]).toMatch(/insufficient_(funds|balance)/);
      expect((await fixture.asked()).settle).toBe(0);
    },
  );

  onlyInLongRun(() => {
    test("a payment that is void is refused with 402 and a new offer, which can be paid", async () => {
      const x402 = await fixture.gateway({ x402: { settle_timeout_secs: 1 } });
      const headers = await x402.pay({ payer: fixture.payer });
      await fixture.devnet.control.fault({ on: "settle", kind: "drop", times: 1 });
      const { nonce } = authorizationIn(headers).authorization;
      const open = await x402.post(headers);
      await fixture.devnet.chain.cancelAuthorization(fixture.payer, nonce);
      await fixture.devnet.chain.finalize();
      expect(open.status).toBe(503);
      await x402.untilState(idIn(open), "VOID");
      const answer = await x402.post(headers);
      expectRefused(answer, "payment.void");
      const [renewed] = requiredIn(answer).accepts;
      const { header } = await signPayment(renewed as PaymentRequirements, inTime({ payer: fixture.payer }));
      expect((await x402.post({ "PAYMENT-SIGNATURE": header })).status).toBe(202);
    });
  });
});

describe("403", () => {
  const DISABLED = "/x402/jobs/1/8";
  const disabled = {
    prices: { "7": "1000000000000000", "8": "1000000000000000" },
    x402: { job_policies: [{ service_id: 1, job_index: 8, invocation_mode: "disabled" }] },
  };

  async function expectRefused(
    x402: TestX402,
    headers: Record<string, string>,
    { path, code }: { path: string; code: string },
  ): Promise<void> {
    const answer = await x402.post(headers, { path });
    expect([answer.status, answer.json()["code"]]).toEqual([403, code]);
    expect(answer.headers["payment-required"]).toBeUndefined();
  }

  test("a payment for a disabled job is refused with 403, even if it is unreadable, and no facilitator is called", async () => {
    const x402 = await fixture.gateway(disabled);
    for (const headers of [await x402.pay({ payer: fixture.payer }), { "PAYMENT-SIGNATURE": "no payment" }])
      await expectRefused(x402, headers, { path: DISABLED, code: "job.disabled" });
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  });

  test("a payer who is not permitted is refused with 403, and so is a caller without a valid proof or without permission", async () => {
    const x402 = await fixture.gateway(restrictedJobs(fixture.devnet));
    const payFor = async (path: string) => signOffer(await x402.post({}, { path }), { payer: fixture.payer });
    const stranger = await newPayer(fixture.devnet, 0n);
    const [byPayer, delegated] = [await payFor(BY_PAYER), await payFor(DELEGATED)];
    const jello = await proofOf({ by: stranger, body: "jello" });
    await expectRefused(x402, byPayer, { path: BY_PAYER, code: "caller.not_permitted" });
    await expectRefused(x402, delegated, { path: DELEGATED, code: "caller.missing" });
    const wrong = { path: DELEGATED, code: "caller.proof_invalid" };
    await expectRefused(x402, { ...delegated, ...jello }, wrong);
    const proof = await proofOf({ by: stranger });
    const unknown = { path: DELEGATED, code: "caller.not_permitted" };
    await expectRefused(x402, { ...delegated, ...proof }, unknown);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  });

  onlyInLongRun(() => {
    test("a payment with a caller's nonce that another payment has used is refused with 403, and not charged", async () => {
      const x402 = await fixture.gateway(restrictedJobs(fixture.devnet));
      const caller = await newPayer(fixture.devnet, 0n);
      await fixture.devnet.chain.permitCaller(1n, caller.address);
      const proof = await proofOf({ by: caller });
      const pay = async () => ({
        ...(await signOffer(await x402.post({}, { path: DELEGATED }), { payer: fixture.payer })),
        ...proof,
      });
      expect((await x402.post(await pay(), { path: DELEGATED })).status).toBe(202);
      await expectRefused(x402, await pay(), { path: DELEGATED, code: "caller.nonce_used" });
      expect(await fixture.charged()).toEqual([PRICE]);
    });
  });

  test("a payment with an operator's quote that is not accepted is refused with 403, and no facilitator is called", async () => {
    const x402 = await fixture.gateway(honouringQuotes);
    const { header } = signQuote(quoteOf(fixture.payer), { by: createSigner(generatePrivateKey()) });
    const headers = { ...(await x402.pay({ payer: fixture.payer })), ...header };
    await expectRefused(x402, headers, { path: "/x402/jobs/1/7", code: "quote.rejected" });
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  });
});

describe("404", () => {
  const NO_JOBS = [
    "/x402/jobs/1/%37",
    "/x402/jobs/%31/7",
    "/x402/jobs/01/7",
    "/x402/jobs/1/07",
    "/x402/jobs/+1/7",
    "/x402/jobs/-1/7",
    "/x402/jobs/1.0/7",
    "/x402/jobs/1e0/7",
    "/x402/jobs/0x1/7",
    "/x402/jobs/1/7/",
    "/x402/jobs/1//7",
    "/x402/jobs/1/7/.",
    "/x402/jobs/1/8/../7",
    "/X402/jobs/1/7",
    "/x402/JOBS/1/7",
    "/x402/jobs/1/4294967303",
    "/x402/jobs/9007199254740993/7",
    "/x402/jobs/18446744073709551617/7",
    "/x402/jobs/1/7;a",
    "/x402/jobs/1/7%00",
    "/x402/jobs/1/7/settle",
  ];
  test.each(sample(NO_JOBS))(
    "the path %s is 404 with or without a payment, and never a job",
    async (path) => {
      const x402 = await fixture.gateway();
      const payment = await x402.pay({ payer: fixture.payer });
      for (const headers of [{}, payment, { "PAYMENT-SIGNATURE": "no payment" }]) {
        const answer = await x402.post(headers, { path });
        expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
      }
      expect(await x402.waiting()).toEqual([]);
      expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    },
  );

  test("a query does not change a job's path", async () => {
    expect((await (await fixture.gateway()).post({}, { path: `${JOB_PATH}?a=/../8` })).status).toBe(402);
  });

  test("a job without a price is 404 even with a payment, and the answer names it", async () => {
    const x402 = await fixture.gateway();
    const paths = ["/x402/jobs/1/4294967295", "/x402/jobs/2/7", "/x402/jobs/0/0"];
    const payments: Record<string, string>[] = [{}, { "PAYMENT-SIGNATURE": "no payment" }];
    for (const [path, headers] of paths.flatMap((each) =>
      payments.map((payment) => [each, payment] as const),
    )) {
      const answer = await x402.post(headers, { path });
      const [serviceId, jobIndex] = path.split("/").slice(3).map(Number);
      expect(answer.status).toBe(404);
      expect(answer.json()).toMatchObject({
        error: "job not found",
        code: "job.not_found",
        service_id: serviceId,
        job_index: jobIndex,
      });
    }
  });
});

describe("405", () => {
  test.each(sample(["GET", "HEAD", "PUT", "PATCH", "DELETE"]))(
    "%s of a job's path is 405 even with a payment, allows POST and OPTIONS, and no facilitator is asked",
    async (method) => {
      const x402 = await fixture.gateway();
      const headers = await x402.pay({ payer: fixture.payer });
      const answer = await send(x402.address, { method, path: JOB_PATH, headers });
      expect([answer.status, answer.headers.allow]).toEqual([405, "POST, OPTIONS"]);
      if (method !== "HEAD") expect(answer.json()["detail"]).toMatch(/^use POST: buy a job with POST/);
      expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    },
  );
});

describe("408", () => {
  test("a paid request whose body does not arrive in time is refused with 408, and its payment can be sent again", async () => {
    const x402 = await fixture.gateway({ requestTimeoutMs: 300 });
    const headers = await x402.pay({ payer: fixture.payer });
    const head = `POST ${JOB_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n`;
    const raw = openRaw(x402.address, `${head}PAYMENT-SIGNATURE: ${headers["PAYMENT-SIGNATURE"]}\r\n\r\nhel`);
    await expect.poll(raw.received, { timeout: 15_000 }).toMatch(/\}$/);
    expect(raw.received()).toMatch(/^HTTP\/1\.1 408 [\s\S]*"code":"request\.timed_out"/);
    raw.socket.destroy();
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    expect((await x402.post(headers)).status).toBe(202);
  });
});

describe("409", () => {
  const twoJobs = { prices: { "7": "1000000000000000", "8": "1000000000000000" } };

  test("a payment that is sent again with another body or for another job is refused with 409, and stays one job", async () => {
    const x402 = await fixture.gateway(twoJobs);
    const headers = await x402.pay({ payer: fixture.payer });
    await x402.post(headers);
    const others: Parameters<typeof x402.post>[1][] = [
      { body: "jello" },
      { body: "" },
      { body: "hello, and more" },
      { path: "/x402/jobs/1/8" },
    ];
    for (const other of others) {
      const answer = await x402.post(headers, other);
      expect([answer.status, answer.json()["code"]]).toEqual([409, "payment.conflict"]);
      expect(answer.headers["payment-required"]).toBeUndefined();
    }
    expect(await x402.waiting()).toHaveLength(1);
    expect((await fixture.asked()).settle).toBe(1);
  });

  onlyInLongRun(() => {
    test("a repeat of a payment with another body is refused with 409, even if its job is now disabled", async () => {
      const before = await fixture.gateway();
      const headers = await before.pay({ payer: fixture.payer });
      await before.post(headers);
      await fixture.stop(before);
      const job_policies = [{ service_id: 1, job_index: 7, invocation_mode: "disabled" }];
      const after = await fixture.gateway({ x402: { job_policies } });
      expect((await after.post(headers, { body: "other" })).status).toBe(409);
    });
  });

  /** Expects no new offer, because the payment is valid but was spent elsewhere. */
  function expectSpentElsewhere(answer: Answer): void {
    expect([answer.status, answer.json()["code"]]).toEqual([409, "payment.spent_elsewhere"]);
    expect(answer.headers["payment-required"]).toBeUndefined();
  }

  onlyInLongRun(() => {
    test("a used authorization is refused with 409 after its record is deleted", async () => {
      const x402 = await fixture.gateway();
      const headers = await x402.pay({ payer: fixture.payer });
      const id = String((await x402.post(headers)).json()["call_id"]);
      await x402.redis.del(keys.record(id), keys.payment(id));
      await fixture.devnet.control.clearRequests();
      expectSpentElsewhere(await x402.post(headers));
      expect((await fixture.asked()).settle).toBe(0);
      expect(await x402.journal.find(id)).toBeUndefined();
    });
  });

  test("an authorization that was used before it arrived is refused with 409, and there is no call", async () => {
    const x402 = await fixture.gateway();
    const headers = await x402.pay({ payer: fixture.payer });
    const signed = authorizationIn(headers);
    fixture.foreign.push(signed.authorization.nonce);
    await fixture.devnet.chain.frontRun(signed);
    expectSpentElsewhere(await x402.post(headers));
    expect(await x402.waiting()).toEqual([]);
  });

  onlyInLongRun(() => {
    test("a cancelled authorization is refused with 409, although a facilitator calls it valid", async () => {
      const x402 = await fixture.gateway();
      const headers = await x402.pay({ payer: fixture.payer });
      const { nonce } = authorizationIn(headers).authorization;
      await fixture.devnet.chain.cancelAuthorization(fixture.payer, nonce);
      await fixture.devnet.control.fault({ on: "verify", kind: "accept", times: 1 });
      expectSpentElsewhere(await x402.post(headers));
      expect((await fixture.asked()).settle).toBe(0);
    });

    test("one payment with two bodies at once pays for one of them, and the other is refused with 409", async () => {
      const replicas = [await fixture.gateway(), await fixture.gateway()] as [TestX402, TestX402];
      const headers = await replicas[0].pay({ payer: fixture.payer });
      const answers = await Promise.all(
        replicas.map((replica, i) => replica.post(headers, { body: ["one", "two"][i] as string })),
      );
      expect(answers.map(({ status }) => status).sort()).toEqual([202, 409]);
      const [call] = await replicas[0].waiting();
      const winner = answers.findIndex(({ status }) => status === 202);
      expect(Buffer.from(String(call?.body), "base64").toString()).toBe(["one", "two"][winner]);
      expect((await fixture.asked()).settle).toBe(1);
    });
  });

  test("a new payment under an identifier that was used for another request is refused with 409, and not charged", async () => {
    const x402 = await fixture.gateway(twoJobs);
    const payFor = async (id: string): Promise<Record<string, string>> => {
      const extensions = structuredClone((await x402.ask()).v2.extensions ?? {});
      appendPaymentIdentifierToExtensions(extensions, id);
      return x402.pay({ payer: fixture.payer }, { extensions } as Partial<PaymentPayload>);
    };
    await x402.post(await payFor("order_0123456789abcdef"));
    const answer = await x402.post(await payFor("order_0123456789abcdef"), { body: "other" });
    expect([answer.status, answer.json()["code"]]).toEqual([409, "payment.identifier_conflict"]);
    expect(await fixture.charged()).toEqual([PRICE]);
  });

  test("a new payment by an operator's quote that another payment has used is refused with 409, and not charged", async () => {
    const x402 = await fixture.gateway(honouringQuotes);
    const { header } = signQuote(quoteOf(fixture.payer));
    const pay = async () => ({
      ...header,
      ...(await signOffer(await x402.post(header), { payer: fixture.payer })),
    });
    const [first, second] = [await pay(), await pay()];
    expect((await x402.post(first)).status).toBe(202);
    const answer = await x402.post(second);
    expect([answer.status, answer.json()["code"]]).toEqual([409, "quote.used"]);
    expect(await fixture.charged()).toEqual([QUOTED]);
  });
});

describe("410", () => {
  test("a payment with an operator's quote that has expired is refused with 410, and no facilitator is asked", async () => {
    const x402 = await fixture.gateway(honouringQuotes);
    const expired = quoteOf(fixture.payer, { expiry: BigInt(Math.floor(Date.now() / 1000) - 1) });
    const headers = { ...(await x402.pay({ payer: fixture.payer })), ...signQuote(expired).header };
    const answer = await x402.post(headers);
    expect([answer.status, answer.json()["code"]]).toEqual([410, "quote.expired"]);
    expect(answer.headers["payment-required"]).toBeUndefined();
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  });
});

describe("413", () => {
  test("a body over the limit, declared or not, is refused with 413 before money moves", async () => {
    const x402 = await fixture.gateway({ x402: { body_limit_bytes: 100 } });
    const payment = await x402.pay({ payer: fixture.payer });
    expect((await x402.post(payment, { body: "a".repeat(101) })).status).toBe(413);
    const chunks = Array.from({ length: 11 }, () => "a".repeat(10));
    const chunked = await send(x402.address, { path: JOB_PATH, headers: payment, body: chunks });
    expect([chunked.status, chunked.json()["code"]]).toEqual([413, "request.too_large"]);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    expect((await x402.post(payment, { body: "a".repeat(100) })).status).toBe(202);
  });
});

describe("415", () => {
  test("a body in a content coding is refused with 415 before money moves, and the same payment is accepted with an unencoded body", async () => {
    const x402 = await fixture.gateway();
    const payment = await x402.pay({ payer: fixture.payer });
    for (const coding of ["gzip", "br", "GZIP", "identity, gzip"]) {
      const answer = await x402.post({ ...payment, "Content-Encoding": coding });
      expect([answer.status, answer.json()["code"]]).toEqual([415, "request.encoding_unsupported"]);
      expect(answer.headers["accept-encoding"]).toBe("identity");
      expect(answer.headers["payment-required"]).toBeUndefined();
    }
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    expect((await x402.post({ ...payment, "Content-Encoding": "identity" })).status).toBe(202);
  });
});

describe("417", () => {
  test("a paid request that expects anything but 100-continue is refused with 417, and not charged", async () => {
    const x402 = await fixture.gateway();
    const payment = await x402.pay({ payer: fixture.payer });
    const answer = await x402.post({ ...payment, Expect: "200-ok" });
    expect([answer.status, answer.json()["code"]]).toEqual([417, "request.expectation_failed"]);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  });
});

describe("422", () => {
  test("a paid body that does not match the job's schema is refused with 422 and the place before any check calls another service, and its payment stays usable", async () => {
    const x402 = await fixture.gateway(declaring);
    const payment = await x402.pay({ payer: fixture.payer });
    const answer = await x402.post(payment, { body: UNFIT });
    expect(answer.status).toBe(422);
    expect(answer.headers["content-type"]).toBe("application/problem+json");
    expect(answer.json()).toMatchObject({
      code: "request.input_invalid",
      detail: "the body does not match the job's input schema: #/items/1 must be integer",
      errors: [{ pointer: "#/items/1", detail: "must be integer" }],
    });
    expect(answer.headers["payment-required"]).toBeUndefined();
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    expect(await fixture.charged()).toEqual([]);
    expect((await x402.post(payment, { body: FITS })).status).toBe(202);
    expect(await fixture.charged()).toEqual([PRICE]);
  });

  onlyInLongRun(() => {
    test("the body for a job with a schema is read as JSON whatever its Content-Type, and an empty body does not match", async () => {
      const x402 = await fixture.gateway(declaring);
      const payment = await x402.pay({ payer: fixture.payer });
      for (const body of ["", "hello", Buffer.from([0xff, 0xfe])])
        expect((await x402.post(payment, { body })).status).toBe(422);
      const typed = { ...payment, "Content-Type": "text/plain" };
      expect((await x402.post(typed, { body: FITS })).status).toBe(202);
    });

    test("a version 1 payment with a body that does not match is refused with 422 too", async () => {
      const x402 = await fixture.gateway(declaring);
      const payment = await x402.payV1({ payer: fixture.payer });
      expect((await x402.post(payment, { body: UNFIT })).status).toBe(422);
      expect(await fixture.charged()).toEqual([]);
      expect((await x402.post(payment, { body: FITS })).status).toBe(202);
    });

    test("a body that does not match is refused before the contract is asked whether its caller is permitted", async () => {
      const restricted = restrictedJobs(fixture.devnet);
      const index = BY_PAYER.split("/").at(-1) as string;
      const x402 = await fixture.gateway({
        ...restricted,
        prices: { ...restricted.prices, [index]: { ...DECLARED, name: "for-some" } },
      });
      const payment = await signOffer(await x402.post({}, { path: BY_PAYER }), { payer: fixture.payer });
      expect((await x402.post(payment, { path: BY_PAYER, body: UNFIT })).status).toBe(422);
      expect((await x402.post(payment, { path: BY_PAYER, body: FITS })).status).toBe(403);
    });

    test("a known payment gets its answer again, even if its job's schema has changed", async () => {
      const before = await fixture.gateway();
      const payment = await before.pay({ payer: fixture.payer });
      expect((await before.post(payment, { body: UNFIT })).status).toBe(202);
      const after = await fixture.gateway(declaring);
      const again = await after.post(payment, { body: UNFIT });
      expect([again.status, again.headers["idempotent-replayed"]]).toEqual([202, "true"]);
    });

    test("the answer to a body that does not match contains only a limited part of the body", async () => {
      const x402 = await fixture.gateway({
        prices: { "7": { ...DECLARED, input_schema: { additionalProperties: { type: "array" } } } },
      });
      const payment = await x402.pay({ payer: fixture.payer });
      const answer = await x402.post(payment, {
        body: JSON.stringify({ ["x".repeat(10_000)]: "y".repeat(9000) }),
      });
      expect(answer.status).toBe(422);
      expect(answer.text.length).toBeLessThan(1000);
    });
  });

  test("a web page may read that a body does not match", async () => {
    const x402 = await fixture.gateway(declaring);
    const payment = await x402.pay({ payer: fixture.payer });
    const headers = { ...payment, Origin: "https://shop.example" };
    const answer = await send(x402.address, { path: "/x402/jobs/1/7", headers, body: [UNFIT] });
    expect([answer.status, answer.headers["access-control-allow-origin"]]).toEqual([422, "*"]);
  });

  onlyInLongRun(() => {
    test("an address whose bodies take long to check is refused with 429 after about thirty a minute, and charged nothing", async () => {
      const x402 = await fixture.gateway(declaring);
      const payment = await x402.pay({ payer: fixture.payer });
      const statuses: number[] = [];
      while (statuses.at(-1) !== 429 && statuses.length < 60)
        statuses.push((await x402.post(payment, { body: ENDLESS })).status);
      expect(new Set(statuses.slice(0, 30))).toEqual(new Set([422]));
      expect(statuses.at(-1)).toBe(429);
      expect(await fixture.charged()).toEqual([]);
      x402.skip(5000);
      expect((await x402.post(payment, { body: FITS })).status).toBe(202);
    }, 60_000);
  });
});

describe("429", () => {
  test("a payer with the maximum number of open payments is refused with 429 and not charged until one is decided", async () => {
    const x402 = await fixture.gateway({ x402: { open_payments_per_payer: 2, settle_timeout_secs: 1 } });
    const payments = await Promise.all([1, 2, 3].map(() => x402.pay({ payer: fixture.payer })));
    const [first, second, third] = payments as [
      (typeof payments)[0],
      (typeof payments)[0],
      (typeof payments)[0],
    ];
    await fixture.devnet.control.fault({ on: "settle", kind: "status", status: 500 });
    for (const headers of [first, second]) {
      const answer = await x402.post(headers);
      expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.outcome_unknown"]);
    }
    const refused = await x402.post(third);
    expect([refused.status, refused.json()["code"]]).toEqual([429, "payment.too_many_open"]);
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
    expect(refused.headers["payment-required"]).toBeUndefined();

    await fixture.devnet.control.clearFaults();
    x402.skip(3000);
    for (const headers of [first, third, second])
      await eventually("it is taken", async () => (await x402.post(headers)).status === 202);
    expect(await fixture.charged()).toEqual([PRICE, PRICE, PRICE]);
  });
});

describe("431", () => {
  test("a payment header longer than HTTP headers may be is refused with 431", async () => {
    const x402 = await fixture.gateway();
    const answer = await x402.post({ "PAYMENT-SIGNATURE": "a".repeat(20_000) });
    expect([answer.status, answer.json()["code"]]).toEqual([431, "request.headers_too_large"]);
  });
});

describe("502", () => {
  test("a client that waits for a call that fails for good gets the reason, and the information that it was paid", async () => {
    const x402 = await fixture.gateway();
    const problem = { title: "Out of paper", detail: "The printer has none" };
    await waits.inject(async () => {
      throw new Refused("the runner's own reason", { problem });
    });
    const answer = await x402.post({ ...(await waits.payment(x402)), ...WAIT });
    expect([answer.status, answer.headers["content-type"]]).toEqual([502, "application/problem+json"]);
    expect(answer.json()).toMatchObject({
      code: "result.call_failed",
      failure: { code: "runner.refused", ...problem },
    });
    expect(settlementIn(answer)).toMatchObject({ success: true });
    expect(answer.headers["preference-applied"]).toBe("wait=30");
  });

  onlyInLongRun(() => {
    const producers = useProducer({ redis: fixture.redis });
    const runner = useFakeRunner();

    test.each([402, 401, 409])(
      "a client that waits gets a 502 instead of the runner's %i",
      async (status) => {
        const x402 = await fixture.gateway();
        const asked = { "payment-required": "e30=", "content-type": "application/problem+json" };
        runner.answer = () => ({ status, headers: asked, body: '{"title":"Pay me","accepts":[]}' });
        producers.start({ runnerUrl: runner.url, origins: ["x402"], attempts: 1 });
        const answer = await x402.post({ ...(await waits.payment(x402)), ...WAIT });
        expect(answer.status).toBe(502);
        expect(answer.headers).not.toHaveProperty("payment-required");
        expect(settlementIn(answer)).toMatchObject({ success: true });
      },
    );
  });
});
