import type { PaymentPayload } from "@x402/core/types";
import { appendPaymentIdentifierToExtensions } from "@x402/extensions/payment-identifier";
import { describe, expect, test } from "vitest";
import { keys } from "../../../../fixtures/redis.ts";
import {
  idIn,
  JOB_PATH,
  PRICE,
  type TestX402,
  useX402,
  withoutPayerFields,
} from "../../../../fixtures/x402.ts";
import { codeOf } from "../../../../support/books.ts";
import { newPayer } from "../../../../support/devnet.ts";
import { type Answer, send } from "../../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../../support/long-run.ts";

const fixture = useX402();
const KEY = "order 4711, as it is called".replaceAll(" ", "_");
const twoJobs = { prices: { "7": "1000000000000000", "8": "1000000000000000" } };

type Pay = "pay" | "payV1";
type More = Parameters<TestX402["post"]>[1];

/** Signs a new payment and sends it under this key. */
async function buy(
  x402: TestX402,
  pay: Pay,
  { key = KEY, payer = fixture.payer, ...more }: { key?: string; payer?: typeof fixture.payer } & More = {},
): Promise<Answer> {
  return x402.post({ ...(await x402[pay]({ payer })), "Idempotency-Key": key }, more);
}

describe.each(sample(["pay", "payV1"] as const))("%s", (pay) => {
  test(`a new payment under a used Idempotency-Key, for the same request, is one charge and gets the first answer (${pay})`, async () => {
    const replicas = [await fixture.gateway(), await fixture.gateway()] as [TestX402, TestX402];
    const [first, again] = [await buy(replicas[0], pay), await buy(replicas[1], pay)];
    expect([first.status, again.status, withoutPayerFields(again)]).toEqual([
      202,
      202,
      withoutPayerFields(first),
    ]);
    expect([first, again].map(({ headers }) => headers["idempotent-replayed"])).toEqual([undefined, "true"]);
    expect(await fixture.charged()).toEqual([PRICE]);
    expect((await fixture.asked()).settle).toBe(1);
  });

  test(`five payments at once under one Idempotency-Key are one charge (${pay})`, async () => {
    const x402 = await fixture.gateway();
    const answers = await Promise.all(Array.from({ length: 5 }, () => buy(x402, pay)));
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 202, 202, 202]);
    expect(new Set(answers.map(withoutPayerFields)).size).toBe(1);
    expect(await fixture.charged()).toEqual([PRICE]);
  });

  test(`the same Idempotency-Key for another body or job is refused with 422, and nothing is charged (${pay})`, async () => {
    const x402 = await fixture.gateway(twoJobs);
    expect((await buy(x402, pay)).status).toBe(202);
    for (const other of [{ body: "other" }, { path: "/x402/jobs/1/8" }]) {
      const answer = await buy(x402, pay, other);
      expect([answer.status, codeOf(answer)]).toEqual([422, "payment.idempotency_key_reused"]);
    }
    expect(await fixture.charged()).toEqual([PRICE]);
  });

  onlyInLongRun(() => {
    test(`if two requests with different bodies use one Idempotency-Key at once, one is bought and the other is refused with 422 (${pay})`, async () => {
      const replicas = [await fixture.gateway(), await fixture.gateway()] as [TestX402, TestX402];
      const answers = await Promise.all(
        replicas.flatMap((x402) => ["one", "two"].map((body) => buy(x402, pay, { body }))),
      );
      const refused = answers.filter(({ status }) => status !== 202);
      expect(refused.map((answer) => [answer.status, codeOf(answer)])).toEqual(
        Array(2).fill([422, "payment.idempotency_key_reused"]),
      );
      expect(await fixture.charged()).toEqual([PRICE]);
    });
  });

  test(`the same Idempotency-Key of another payer is a separate key, and reveals nothing about the first purchase (${pay})`, async () => {
    const x402 = await fixture.gateway();
    const other = await newPayer(fixture.devnet);
    const [mine, theirs] = [await buy(x402, pay), await buy(x402, pay, { payer: other, body: "other" })];
    expect([mine.status, theirs.status]).toEqual([202, 202]);
    expect(theirs.headers["idempotent-replayed"]).toBeUndefined();
    expect(idIn(theirs)).not.toBe(idIn(mine));
    expect([await fixture.charged(), await fixture.charged(other)]).toEqual([[PRICE], [PRICE]]);
  });

  onlyInLongRun(() => {
    test(`two payments under two keys are two jobs (${pay})`, async () => {
      const x402 = await fixture.gateway();
      for (const key of ["a", '"a"']) expect((await buy(x402, pay, { key })).status).toBe(202);
      expect(await fixture.charged()).toEqual([PRICE, PRICE]);
    });

    test(`a key whose payment became void can be used again (${pay})`, async () => {
      const x402 = await fixture.gateway({ x402: { settle_timeout_secs: 1 } });
      await fixture.devnet.control.fault({ on: "settle", kind: "drop", times: 1 });
      const open = await x402.undisturbed(() => buy(x402, pay));
      const payment = await x402.journal.find(idIn(open));
      if (payment === undefined) throw new Error("it was claimed");
      await x402.undisturbed(() => x402.journal.markVoid(payment, { reason: "a test" }, { now: Date.now() }));
      const again = await buy(x402, pay);
      expect([again.status, again.headers["idempotent-replayed"]]).toEqual([202, undefined]);
      expect(await fixture.charged()).toEqual([PRICE]);
    });
  });
});

onlyInLongRun(() => {
  test("a payment of version 1 whose token is gone is found only by its own signature, not by a payer's address and a key", async () => {
    const before = await fixture.gateway();
    const headers = { ...(await before.payV1({ payer: fixture.payer })), "Idempotency-Key": KEY };
    const first = await before.post(headers);
    expect(first.status).toBe(202);
    const forged = await before.payV1({ payer: fixture.payer });
    const { payload, ...rest } = JSON.parse(Buffer.from(forged["X-PAYMENT"] ?? "", "base64").toString());
    const unsigned = { ...rest, payload: { ...payload, signature: `0x${"1".repeat(130)}` } };
    await fixture.stop(before);

    const asset = "0x2222222222222222222222222222222222222222";
    const after = await fixture.gateway({ token: { asset } });
    const again = await after.post(headers);
    expect([again.status, withoutPayerFields(again)]).toEqual([202, withoutPayerFields(first)]);
    const header = {
      "Idempotency-Key": KEY,
      "X-PAYMENT": Buffer.from(JSON.stringify(unsigned)).toString("base64"),
    };
    // The refused payment belongs to no purchase, so the fixture's accounting does not see it.
    const refused = await send(after.address, { path: JOB_PATH, headers: header, body: "hello" });
    expect([refused.status === 202, refused.text.includes(idIn(first))]).toEqual([false, false]);
    expect(await fixture.charged()).toEqual([PRICE]);
  });
});

const ORDER = "order_0123456789abcdef";

/** Signs a new payment under a payment-identifier, and a key if one is given. */
async function identified(
  x402: TestX402,
  id: string,
  { key, payer = fixture.payer, ...more }: { key?: string; payer?: typeof fixture.payer } & More = {},
): Promise<Answer> {
  const extensions = structuredClone((await x402.ask()).v2.extensions ?? {});
  appendPaymentIdentifierToExtensions(extensions, id);
  const headers = await x402.pay({ payer }, { extensions } as Partial<PaymentPayload>);
  return x402.post({ ...headers, ...(key !== undefined && { "Idempotency-Key": key }) }, more);
}

describe("a text in the form of a payment-identifier is the same name as an identifier and as a key", () => {
  const WAYS = [
    ["a payment-identifier, and then an Idempotency-Key in version 2", "pay"],
    ["a payment-identifier, and then an Idempotency-Key in version 1", "payV1"],
  ] as const;
  test.each(sample(WAYS))("%s, is one purchase and one charge", async (_ways, pay) => {
    const x402 = await fixture.gateway(twoJobs);
    const first = await identified(x402, ORDER);
    for (const again of [await buy(x402, pay, { key: ORDER }), await identified(x402, ORDER, { key: ORDER })])
      expect([again.status, withoutPayerFields(again)]).toEqual([202, withoutPayerFields(first)]);
    for (const other of [{ body: "other" }, { path: "/x402/jobs/1/8" }])
      for (const [answer, refusal] of [
        [await buy(x402, pay, { key: ORDER, ...other }), [422, "payment.idempotency_key_reused"]],
        [await identified(x402, ORDER, other), [409, "payment.identifier_conflict"]],
        [await identified(x402, ORDER, { key: ORDER, ...other }), [409, "payment.identifier_conflict"]],
      ] as const)
        expect([answer.status, codeOf(answer)]).toEqual(refusal);
    expect(await fixture.charged()).toEqual([PRICE]);
  });

  onlyInLongRun(() => {
    test("an Idempotency-Key and the equal payment-identifier are one purchase, and those of another payer are another purchase", async () => {
      const x402 = await fixture.gateway();
      const other = await newPayer(fixture.devnet);
      const first = await buy(x402, "payV1", { key: ORDER });
      const again = await identified(x402, ORDER);
      expect([again.status, withoutPayerFields(again)]).toEqual([202, withoutPayerFields(first)]);
      const theirs = await identified(x402, ORDER, { payer: other, body: "other" });
      expect([theirs.status, theirs.headers["idempotent-replayed"]]).toEqual([202, undefined]);
      expect([await fixture.charged(), await fixture.charged(other)]).toEqual([[PRICE], [PRICE]]);
    });

    test("payments with both identifiers, sent at once to two gateways, are one charge", async () => {
      const replicas = [await fixture.gateway(), await fixture.gateway()] as [TestX402, TestX402];
      const answers = await Promise.all(
        replicas.flatMap((x402) => [
          identified(x402, ORDER),
          buy(x402, "pay", { key: ORDER }),
          buy(x402, "payV1", { key: ORDER }),
        ]),
      );
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
      expect(new Set(answers.map(withoutPayerFields)).size).toBe(1);
      expect(await fixture.charged()).toEqual([PRICE]);
    });

    test("a key of another form is a separate name", async () => {
      const x402 = await fixture.gateway();
      const id = ORDER.slice(0, 15);
      for (const key of [
        id,
        `${ORDER}.`,
        `"${ORDER}"`,
        "k".repeat(129),
        `v1:${"0".repeat(64)}`,
        `key:${ORDER}`,
      ])
        expect((await buy(x402, "pay", { key })).headers["idempotent-replayed"]).toBeUndefined();
      expect(await fixture.charged()).toEqual(Array(6).fill(PRICE));
    });

    test("a void payment frees its name in both forms, however it was sent", async () => {
      const x402 = await fixture.gateway({ x402: { settle_timeout_secs: 1 } });
      await fixture.devnet.control.fault({ on: "settle", kind: "drop", times: 1 });
      const open = await x402.undisturbed(() => identified(x402, ORDER, { key: ORDER }));
      const payment = await x402.journal.find(idIn(open));
      if (payment === undefined) throw new Error("it was claimed");
      await x402.undisturbed(() => x402.journal.markVoid(payment, { reason: "a test" }, { now: Date.now() }));
      const again = await buy(x402, "pay", { key: ORDER });
      expect([again.status, again.headers["idempotent-replayed"]]).toEqual([202, undefined]);
      expect(idIn(await identified(x402, ORDER))).toBe(idIn(again));
      expect(await fixture.charged()).toEqual([PRICE]);
    });
  });
});

onlyInLongRun(() => {
  test("an Idempotency-Key that looks like the journal's key of a version 1 signature finds nothing there", async () => {
    const x402 = await fixture.gateway();
    const first = await x402.post(await x402.payV1({ payer: fixture.payer }));
    const payer = fixture.payer.address.toLowerCase();
    const [place = ""] = await x402.redis.keys(keys.paymentIdentifier(payer, "v1:*"));
    const key = /v1:[0-9a-f]{64}$/.exec(place)?.[0];
    expect(key).toBeDefined();
    const other = await buy(x402, "pay", { key: key as string });
    expect([other.status, idIn(other) === idIn(first)]).toEqual([202, false]);
  });
});

test("a request with the identifiers of two purchases is refused with 409, and nothing is charged", async () => {
  const x402 = await fixture.gateway();
  const [one, two] = ["one_0123456789abcdef", "two_0123456789abcdef"];
  const bought = [
    await identified(x402, one),
    await buy(x402, "payV1", { key: two }),
    await buy(x402, "pay"),
  ];
  expect(bought.map(({ status }) => status)).toEqual([202, 202, 202]);
  const asked = await fixture.asked();
  for (const [id, key] of [
    [one, two],
    [two, one],
    [one, KEY],
  ] as const) {
    const answer = await identified(x402, id, { key });
    expect([answer.status, codeOf(answer)]).toEqual([409, "payment.identifier_conflict"]);
    expect(answer.json()["detail"]).toMatch(/two purchases/);
  }
  expect(await fixture.asked()).toEqual(asked);
  expect(await fixture.charged()).toEqual([PRICE, PRICE, PRICE]);
});

onlyInLongRun(() => {
  test("either the payment-identifier or the Idempotency-Key of a request finds its purchase again", async () => {
    const x402 = await fixture.gateway();
    const first = await identified(x402, ORDER, { key: KEY });
    const others = [
      await identified(x402, ORDER),
      await identified(x402, ORDER, { key: "another" }),
      await identified(x402, "another_0123456789abcdef", { key: KEY }),
      await buy(x402, "pay"),
    ];
    for (const answer of others)
      expect([answer.status, withoutPayerFields(answer)]).toEqual([202, withoutPayerFields(first)]);
    expect(await fixture.charged()).toEqual([PRICE]);
  });

  test("a payment-identifier that looks like the journal's key of an Idempotency-Key finds nothing there", async () => {
    const x402 = await fixture.gateway();
    await buy(x402, "pay");
    const [place = ""] = await x402.redis.keys(
      keys.paymentIdentifier(fixture.payer.address.toLowerCase(), "key:*"),
    );
    const id = /key:[0-9a-f]{64}$/.exec(place)?.[0];
    expect(id).toBeDefined();
    const extensions = { "payment-identifier": { info: { required: false, id } } };
    const answer = await x402.post(await x402.pay({ payer: fixture.payer }, { extensions } as never));
    expect([answer.status, codeOf(answer)]).toEqual([402, "payment.malformed"]);
  });

  test("an Idempotency-Key is forgotten with its payment, and not before", async () => {
    const x402 = await fixture.gateway();
    const id = idIn(await buy(x402, "pay"));
    const place = keys.paymentIdentifier(fixture.payer.address.toLowerCase(), "key:*");
    const [key = ""] = await x402.redis.keys(place);
    expect(await x402.redis.pttl(key)).toBe(-1);
    const payment = await x402.journal.find(id);
    if (payment === undefined) throw new Error("it was bought");
    await x402.journal.markEnded(payment);
    const [left, leftOfPayment] = [await x402.redis.pttl(key), await x402.redis.pttl(keys.payment(id))];
    expect(Math.abs(left - leftOfPayment)).toBeLessThan(1000);
  });
});

const REFUSED_KEYS: readonly [string, string[]][] = [
  ["empty", ["Idempotency-Key", ""]],
  ["longer than 255", ["Idempotency-Key", "k".repeat(256)]],
  ["with a space", ["Idempotency-Key", "a b"]],
  ["not ASCII", ["Idempotency-Key", "\u00e9"]],
  ["sent twice", ["Idempotency-Key", "a", "idempotency-key", "a"]],
];
test.each(sample(REFUSED_KEYS))(
  "a paid request whose Idempotency-Key is %s is refused with 400, and not charged",
  async (_what, key) => {
    const x402 = await fixture.gateway();
    const payment = Object.entries(await x402.pay({ payer: fixture.payer })).flat();
    const answer = await send(x402.address, { path: JOB_PATH, headers: [...payment, ...key], body: "hello" });
    expect([answer.status, codeOf(answer)]).toEqual([400, "request.malformed"]);
    expect(answer.json()["detail"]).toMatch(/^Idempotency-Key must/);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  },
);

onlyInLongRun(() => {
  test("a known payment gets its answer, even with an invalid Idempotency-Key", async () => {
    const x402 = await fixture.gateway();
    const headers = await x402.pay({ payer: fixture.payer });
    const first = await x402.post(headers);
    const again = await x402.post({ ...headers, "Idempotency-Key": "a b" });
    expect([again.status, again.headers["idempotent-replayed"], withoutPayerFields(again)]).toEqual([
      202,
      "true",
      withoutPayerFields(first),
    ]);
  });
});
