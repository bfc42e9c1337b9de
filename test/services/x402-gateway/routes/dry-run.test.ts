import { describe, expect, test } from "vitest";
import {
  JOB_PATH,
  PRICE,
  signOffer,
  type TestX402,
  useX402,
  type X402Fixture,
} from "../../../fixtures/x402.ts";
import { newPayer } from "../../../support/devnet.ts";
import { openRaw, send } from "../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { DRY_RUN, declaring, ENDLESS, FITS, UNFIT } from "../job-inputs.ts";
import { honouringQuotes, quoteOf, signQuote } from "../operator-quotes.ts";
import { rateless } from "../rateless.ts";
import { BY_PAYER, DELEGATED, proofOf, restrictedJobs } from "../restricted-jobs.ts";

type Refused = {
  headers: Record<string, string>;
  path?: string;
  body?: string;
  status: number;
  code: string;
};

/** Expects that the dry-run and the paid route refuse with the same status and code, and that nothing is settled. */
async function expectRefusedAlike(
  fixture: X402Fixture,
  x402: TestX402,
  { headers, path = JOB_PATH, body = "hello", status, code }: Refused,
): Promise<void> {
  const { settle } = await fixture.asked();
  for (const route of [`${path}/auth-dry-run`, path]) {
    const answer = await x402.post(headers, { path: route, body });
    expect([route, answer.status, answer.json()["code"]]).toEqual([route, status, code]);
  }
  expect((await fixture.asked()).settle).toBe(settle);
}

const fixture = useX402();

describe("200", () => {
  const DRY_RUN = `${JOB_PATH}/auth-dry-run`;

  test("a dry-run allows a payment that would be accepted, any number of times, and the payment then buys the job", async () => {
    const x402 = await fixture.gateway();
    const headers = await x402.pay({ payer: fixture.payer });
    for (let i = 0; i < 2; i++) {
      expect((await x402.post(headers, { path: DRY_RUN })).json()).toEqual({
        allowed: true,
        mode: "public_paid",
      });
    }
    expect((await fixture.asked()).settle).toBe(0);
    expect((await x402.post(headers)).status).toBe(202);
    expect((await x402.post(headers, { path: DRY_RUN })).json()).toMatchObject({ allowed: true });
    expect(await fixture.charged()).toEqual([PRICE]);
  });

  test("a dry-run without a payment is allowed for a job that anyone may buy", async () => {
    const x402 = await fixture.gateway();
    const answer = await x402.post({}, { path: DRY_RUN });
    expect([answer.status, answer.json()]).toEqual([200, { allowed: true, mode: "public_paid" }]);
  });

  test("a dry-run without a payment allows a permitted caller's proof, and does not use up its nonce", async () => {
    const caller = await newPayer(fixture.devnet, 0n);
    await fixture.devnet.chain.permitCaller(1n, caller.address);
    const x402 = await fixture.gateway(restrictedJobs(fixture.devnet));
    const proof = await proofOf({ by: caller });
    for (let i = 0; i < 2; i++) {
      const answer = await x402.post(proof, { path: `${DELEGATED}/auth-dry-run` });
      expect([answer.status, answer.json()["caller"]]).toEqual([200, caller.address.toLowerCase()]);
    }
  });

  test("a dry-run without a payment allows a valid operator's quote", async () => {
    const x402 = await fixture.gateway(honouringQuotes);
    const answer = await x402.post(signQuote(quoteOf(fixture.payer)).header, { path: DRY_RUN });
    expect([answer.status, answer.json()["allowed"]]).toEqual([200, true]);
  });

  onlyInLongRun(() => {
    test("a dry-run of a job that anyone may buy does not wait for the body, with or without a payment", async () => {
      const x402 = await fixture.gateway();
      const payment = await x402.pay({ payer: fixture.payer });
      for (const headers of [{}, payment]) {
        const lines = Object.entries({ Host: "x", "Content-Length": "1048576", ...headers });
        const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join("");
        const raw = openRaw(x402.address, `POST ${JOB_PATH}/auth-dry-run HTTP/1.1\r\n${head}\r\n`);
        await expect.poll(raw.received, { timeout: 10_000 }).toMatch(/"allowed":true/);
        raw.socket.destroy();
      }
    });
  });
});

describe("400", () => {
  test("a dry-run with two payments is refused with 400, as the paid request is", async () => {
    const x402 = await fixture.gateway();
    const headers = { ...(await x402.pay({ payer: fixture.payer })), "X-PAYMENT": "another" };
    await expectRefusedAlike(fixture, x402, { headers, status: 400, code: "payment.ambiguous" });
  });

  onlyInLongRun(() => {
    test("a dry-run with an unreadable operator's quote is refused with 400, as the paid request is", async () => {
      const x402 = await fixture.gateway(honouringQuotes);
      const headers = { ...(await x402.pay({ payer: fixture.payer })), "X-PLATFORM-QUOTE": "e30=" };
      await expectRefusedAlike(fixture, x402, { headers, status: 400, code: "quote.malformed" });
    });
  });
});

describe("402", () => {
  test("a dry-run without a payment, of a job whose payer must be permitted, is 402: it needs one", async () => {
    const x402 = await fixture.gateway(restrictedJobs(fixture.devnet));
    const answer = await x402.post({}, { path: `${BY_PAYER}/auth-dry-run` });
    expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.required"]);
  });

  test("a dry-run with an unreadable payment header is refused with 402, as the paid request is", async () => {
    const x402 = await fixture.gateway();
    const headers = { "PAYMENT-SIGNATURE": "AAAA" };
    await expectRefusedAlike(fixture, x402, { headers, status: 402, code: "payment.malformed" });
  });

  onlyInLongRun(() => {
    test("a dry-run with a payment of another price is refused with 402, as the paid request is", async () => {
      const x402 = await fixture.gateway();
      const headers = await x402.pay({ payer: fixture.payer, value: 1n });
      await expectRefusedAlike(fixture, x402, { headers, status: 402, code: "payment.not_offered" });
    });

    test("a dry-run by a payer without the money is refused with 402, as the paid request is", async () => {
      const x402 = await fixture.gateway();
      const headers = await x402.pay({ payer: await newPayer(fixture.devnet, 0n) });
      await expectRefusedAlike(fixture, x402, { headers, status: 402, code: "payment.rejected" });
    });
  });
});

describe("403", () => {
  const disabled = {
    x402: { job_policies: [{ service_id: 1, job_index: 7, invocation_mode: "disabled" }] },
  };

  test.each(sample(["good", "broken"]))(
    "a dry-run of a disabled job with a %s payment is refused with 403, as the paid request is",
    async (kind) => {
      const open = await fixture.gateway();
      const payment = await open.pay({ payer: fixture.payer });
      const x402 = await fixture.gateway(disabled);
      const headers = kind === "good" ? payment : { "PAYMENT-SIGNATURE": "AAAA" };
      await expectRefusedAlike(fixture, x402, { headers, status: 403, code: "job.disabled" });
    },
  );

  test("a dry-run of a permitted callers' job without a proof is refused with 403, with a payment or without", async () => {
    const x402 = await fixture.gateway(restrictedJobs(fixture.devnet));
    const headers = await signOffer(await x402.post({}, { path: DELEGATED }), { payer: fixture.payer });
    const missing = { path: DELEGATED, status: 403, code: "caller.missing" };
    await expectRefusedAlike(fixture, x402, { headers, ...missing });
    const unpaid = await x402.post({}, { path: `${DELEGATED}/auth-dry-run` });
    expect([unpaid.status, unpaid.json()["code"]]).toEqual([403, "caller.missing"]);
  });

  onlyInLongRun(() => {
    test("a dry-run with a caller's nonce that a payment has used is refused with 403", async () => {
      const caller = await newPayer(fixture.devnet, 0n);
      await fixture.devnet.chain.permitCaller(1n, caller.address);
      const x402 = await fixture.gateway(restrictedJobs(fixture.devnet));
      const proof = await proofOf({ by: caller });
      const payment = await signOffer(await x402.post({}, { path: DELEGATED }), { payer: fixture.payer });
      expect((await x402.post({ ...payment, ...proof }, { path: DELEGATED })).status).toBe(202);
      const answer = await x402.post(proof, { path: `${DELEGATED}/auth-dry-run` });
      expect([answer.status, answer.json()["code"]]).toEqual([403, "caller.nonce_used"]);
    });
  });

  test("a dry-run without a payment refuses with 403 an operator's quote for another job or another body", async () => {
    const x402 = await fixture.gateway(honouringQuotes);
    const codeOf = async (headers: Record<string, string>, body = "hello") => {
      const answer = await x402.post(headers, { body, path: `${JOB_PATH}/auth-dry-run` });
      return [answer.status, answer.json()["code"]];
    };
    expect(await codeOf(signQuote(quoteOf(fixture.payer)).header, "jello")).toEqual([403, "quote.rejected"]);
    const another = signQuote(quoteOf(fixture.payer, { jobIndex: 8 }));
    expect(await codeOf(another.header)).toEqual([403, "quote.rejected"]);
  });
});

describe("404", () => {
  const HEADERS: readonly [string, object][] = [
    ["without a payment", {}],
    ["with an unreadable payment header", { "X-PAYMENT": "AAAA" }],
  ];
  test.each(sample(HEADERS))(
    "a dry-run %s of a job without a price is refused with 404",
    async (_how, headers) => {
      const x402 = await fixture.gateway();
      const path = "/x402/jobs/1/9";
      await expectRefusedAlike(fixture, x402, {
        headers: { ...headers },
        path,
        status: 404,
        code: "job.not_found",
      });
    },
  );

  test("a dry-run's path with anything behind it is 404", async () => {
    const x402 = await fixture.gateway();
    const answer = await x402.post({}, { path: `${JOB_PATH}/auth-dry-run/` });
    expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
  });
});

describe("405", () => {
  test("GET of a dry-run is 405, which allows POST and OPTIONS, and no facilitator is asked", async () => {
    const x402 = await fixture.gateway();
    const headers = await x402.pay({ payer: fixture.payer });
    const answer = await send(x402.address, { method: "GET", path: `${JOB_PATH}/auth-dry-run`, headers });
    expect([answer.status, answer.headers.allow]).toEqual([405, "POST, OPTIONS"]);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  });
});

describe("408", () => {
  test("a dry-run whose caller signs for a body that does not arrive in time is refused with 408", async () => {
    const x402 = await fixture.gateway({ ...restrictedJobs(fixture.devnet), requestTimeoutMs: 300 });
    const head = `POST ${DELEGATED}/auth-dry-run HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n`;
    const raw = openRaw(x402.address, `${head}hel`);
    await expect.poll(raw.received, { timeout: 15_000 }).toMatch(/\}$/);
    expect(raw.received()).toMatch(/^HTTP\/1\.1 408 [\s\S]*"code":"request\.timed_out"/);
    raw.socket.destroy();
  });
});

describe("409", () => {
  test("a dry-run with a known payment and another body is refused with 409, as the paid request is", async () => {
    const x402 = await fixture.gateway();
    const headers = await x402.pay({ payer: fixture.payer });
    expect((await x402.post(headers)).status).toBe(202);
    const other = { headers, body: "other", status: 409, code: "payment.conflict" };
    await expectRefusedAlike(fixture, x402, other);
  });

  onlyInLongRun(() => {
    test("a dry-run with an operator's quote that a payment has used is refused with 409, as the paid request is", async () => {
      const x402 = await fixture.gateway(honouringQuotes);
      const { header } = signQuote(quoteOf(fixture.payer));
      const pay = async () => ({
        ...header,
        ...(await signOffer(await x402.post(header, { path: JOB_PATH }), { payer: fixture.payer })),
      });
      const [first, headers] = [await pay(), await pay()];
      expect((await x402.post(first)).status).toBe(202);
      // The dry-run is refused with and without a payment.
      for (const each of [headers, header])
        await expectRefusedAlike(fixture, x402, { headers: each, status: 409, code: "quote.used" });
    });
  });
});

describe("410", () => {
  test("a dry-run with an operator's quote that has expired is refused with 410", async () => {
    const x402 = await fixture.gateway(honouringQuotes);
    const expiry = BigInt(Math.floor(Date.now() / 1000) - 1);
    const { header } = signQuote(quoteOf(fixture.payer, { expiry }));
    const answer = await x402.post(header, { path: `${JOB_PATH}/auth-dry-run` });
    expect([answer.status, answer.json()["code"]]).toEqual([410, "quote.expired"]);
  });
});

describe("413", () => {
  test("a dry-run with a body over the limit is refused with 413, with a payment or without", async () => {
    const x402 = await fixture.gateway({ x402: { body_limit_bytes: 100 } });
    const headers = await x402.pay({ payer: fixture.payer });
    const body = "a".repeat(101);
    await expectRefusedAlike(fixture, x402, { headers, body, status: 413, code: "request.too_large" });
    const unpaid = await x402.post({}, { path: `${JOB_PATH}/auth-dry-run`, body });
    expect([unpaid.status, unpaid.json()["code"]]).toEqual([413, "request.too_large"]);
  });
});

describe("415", () => {
  test("a dry-run with a payment and a body in a content coding is refused with 415, as the paid request is", async () => {
    const x402 = await fixture.gateway();
    const headers = { ...(await x402.pay({ payer: fixture.payer })), "Content-Encoding": "gzip" };
    await expectRefusedAlike(fixture, x402, { headers, status: 415, code: "request.encoding_unsupported" });
  });
});

describe("422", () => {
  test("a dry-run with a body that does not match the job's schema is refused with 422 and the place, with a payment or without", async () => {
    const x402 = await fixture.gateway(declaring);
    const headers = await x402.pay({ payer: fixture.payer });
    await expectRefusedAlike(fixture, x402, {
      headers,
      body: UNFIT,
      status: 422,
      code: "request.input_invalid",
    });
    const unpaid = await x402.post({}, { path: DRY_RUN, body: UNFIT });
    expect([unpaid.status, unpaid.json()["errors"]]).toEqual([
      422,
      [{ pointer: "#/items/1", detail: "must be integer" }],
    ]);
    for (const each of [headers, {}])
      expect((await x402.post(each, { path: DRY_RUN, body: FITS })).json()["allowed"]).toBe(true);
    expect((await fixture.asked()).settle).toBe(0);
  });

  onlyInLongRun(() => {
    test("dry-runs whose bodies are slow to check are refused with 429 after about sixty a minute from all addresses, and payments are not", async () => {
      // Its minute does not end. On a busy machine, so many slow checks take longer than a minute.
      const now = Date.now();
      const trusted = { trusted_proxies: ["127.0.0.1"] };
      const x402 = await fixture.gateway({ ...declaring, http: trusted, clock: () => now });
      const payment = await x402.pay({ payer: fixture.payer });
      const statuses: number[] = [];
      while (statuses.at(-1) !== 429 && statuses.length < 200) {
        const headers = { "X-Forwarded-For": `192.0.2.${statuses.length}` };
        statuses.push((await x402.post(headers, { path: DRY_RUN, body: ENDLESS })).status);
      }
      expect(new Set(statuses.slice(0, 60))).toEqual(new Set([422]));
      expect(statuses.at(-1)).toBe(429);
      expect((await x402.post(payment, { body: ENDLESS })).status).toBe(422);
      expect((await x402.post(payment, { body: FITS })).status).toBe(202);
    });
  });
});

describe("429", () => {
  test("a dry-run by a payer with as many open payments as are allowed is refused with 429, as the paid request is", async () => {
    const x402 = await fixture.gateway({ x402: { open_payments_per_payer: 1, settle_timeout_secs: 1 } });
    await fixture.devnet.control.fault({ on: "settle", kind: "drop" });
    // Without `undisturbed`, a reconciler would settle the open payment two seconds after its claim.
    await x402.undisturbed(async () => {
      expect((await x402.post(await x402.pay({ payer: fixture.payer }))).status).toBe(503);
      const headers = await x402.pay({ payer: fixture.payer });
      await expectRefusedAlike(fixture, x402, { headers, status: 429, code: "payment.too_many_open" });
    });
  });
});

describe("503", () => {
  const DRY_RUN = `${JOB_PATH}/auth-dry-run`;

  test("a dry-run is 503 while no token has a rate", async () => {
    const x402 = await fixture.gateway({ token: rateless });
    const unpaid = await x402.post({}, { path: DRY_RUN });
    expect([unpaid.status, unpaid.json()["code"]]).toEqual([503, "price.unavailable"]);
    expect(Number(unpaid.headers["retry-after"])).toBeGreaterThan(0);
  });

  onlyInLongRun(() => {
    test.each([
      ["an unreadable payment header", async () => ({ "PAYMENT-SIGNATURE": "AAAA" })],
      ["a version 1 payment", (before: TestX402) => before.payV1({ payer: fixture.payer })],
    ] as const)("a dry-run with %s is 503 without a rate, as the paid request is", async (_what, pay) => {
      const headers = { ...(await pay(await fixture.gateway())) };
      const x402 = await fixture.gateway({ token: rateless });
      await expectRefusedAlike(fixture, x402, { headers, status: 503, code: "price.unavailable" });
    });
  });

  test("a dry-run is 503 at a gateway that was stopped, with a payment or without, as the paid request is", async () => {
    const x402 = await fixture.gateway();
    const headers = await x402.pay({ payer: fixture.payer });
    x402.gateway.stop();
    await expectRefusedAlike(fixture, x402, { headers, status: 503, code: "service.draining" });
    const unpaid = await x402.post({}, { path: DRY_RUN });
    expect([unpaid.status, unpaid.json()["code"]]).toEqual([503, "service.draining"]);
  });

  onlyInLongRun(() => {
    test("a dry-run with a payment whose outcome is unknown is 503, as the paid request is", async () => {
      const x402 = await fixture.gateway({ x402: { settle_timeout_secs: 1 } });
      const headers = await x402.pay({ payer: fixture.payer });
      await fixture.devnet.control.fault({ on: "settle", kind: "drop" });
      expect((await x402.post(headers)).status).toBe(503);
      const answers = await Promise.all([DRY_RUN, JOB_PATH].map((path) => x402.post(headers, { path })));
      for (const answer of answers)
        expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.outcome_unknown"]);
    });
  });
});
