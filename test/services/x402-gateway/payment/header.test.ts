import type { PaymentPayload, PaymentRequirements } from "@x402/core/types";
import type { PaymentRequirementsV1 } from "@x402/core/types/v1";
import { describe, expect, test } from "vitest";
import {
  idIn,
  inTime,
  JOB_PATH,
  PRICE,
  requiredIn,
  type TestX402,
  useX402,
  withoutPayerFields,
} from "../../../fixtures/x402.ts";
import { type Answer, send } from "../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { encodeHeader, signPayment, signPaymentV1 } from "../../../support/sign-payment.ts";

const fixture = useX402();
const text = (content: string) => Buffer.from(content).toString("base64");
const DEEP = `${"[".repeat(2500)}${"]".repeat(2500)}`;

const malformed: Record<string, string> = {
  "not base64": "@@@@",
  "not JSON": text("hello"),
  "deep JSON": text(DEEP),
  "an empty object": text("{}"),
  "base64 with a line break": `${text('{"x402Version":2}')} `.replace(" ", "=A=="),
  "in base64url": Buffer.from('{"a":"??>>~~"}').toString("base64url"),
  "base64 with a part of its padding": text('{"a":1}').replace(/==$/, "="),
  "base64 with one digit too many": `${text('{"x402Version":2} ')}A`,
  "JSON that is cut off": text('{"x402Version":2'),
  "JSON null": text("null"),
  "a number": text("1"),
  "a string": text('"x402"'),
  "an empty array": text("[]"),
  "an array of payments": text('[{"x402Version":2}]'),
  "a deep object": text(`{"x402Version":2,"payload":${DEEP}}`),
  "an unknown future version": encodeHeader({ x402Version: 99 }),
  "a __proto__ alone": text('{"__proto__":{"x402Version":2}}'),
  empty: "",
};

describe.each(["PAYMENT-SIGNATURE", "X-PAYMENT"])("in the header %s", (name) => {
  test.each(sample(Object.entries(malformed), 2))(
    "a payment header that is %s is refused as malformed",
    async (_what, header) => {
      const x402 = await fixture.gateway();
      const answer = await x402.post({ [name]: header });
      expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.malformed"]);
      expect(requiredIn(answer).error).toMatch(/^payment\.malformed: /);
      expect(requiredIn(answer).accepts).toHaveLength(1);
      expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    },
  );
});

test("a payment in the header of the other version is refused with the name of the right header, and is not charged", async () => {
  const x402 = await fixture.gateway();
  const { "PAYMENT-SIGNATURE": v2 = "" } = await x402.pay({ payer: fixture.payer });
  const { "X-PAYMENT": v1 = "" } = await x402.payV1({ payer: fixture.payer });
  for (const [headers, belongs] of [
    [{ "X-PAYMENT": v2 }, "version 2 belongs in the header PAYMENT-SIGNATURE"],
    [{ "PAYMENT-SIGNATURE": v1 }, "version 1 belongs in the header X-PAYMENT"],
  ] as const) {
    const answer = await x402.post(headers);
    expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.malformed"]);
    expect(answer.json()["detail"]).toBe(`x402Version: a payment of ${belongs}`);
  }
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
});

test.each(
  sample(["iso4217:USD", "cloudflare:402", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "eip155:*", ""]),
)(
  "a payment on %j, which is no EVM chain, is refused with an explanation, and no facilitator is called",
  async (network) => {
    const x402 = await fixture.gateway();
    const [offer] = (await x402.ask()).v2.accepts;
    const { payload } = await signPayment(offer as PaymentRequirements, inTime({ payer: fixture.payer }));
    const accepted = { ...payload.accepted, network };
    const answer = await x402.post({ "PAYMENT-SIGNATURE": encodeHeader({ ...payload, accepted }) });
    expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.not_offered"]);
    expect(answer.json()["detail"]).toMatch(/^accepted\.network must be an EVM chain/);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  },
);

describe("a valid payment in another encoding", () => {
  // This text makes the encodings differ: "?" and ">" in a row become "/" and "+", and one more byte moves the padding.
  const note = { note: "??>>?>?>~~" };
  const codings: Record<string, (json: string, good: string) => string> = {
    "in base64url": (json) => Buffer.from(json).toString("base64url"),
    "with a part of its padding": (_, good) => good.replace(/==$/, "="),
    "with more padding": (_, good) => `${good}====`,
    "in two parts": (_, good) => `${good.slice(0, 40)} ${good.slice(40)}`,
    "with trailing text": (_, good) => `${good}@@@@`,
    "as bare JSON": (json) => json,
    "longer than 14 KiB": (json) => text(json.replace("??>>", "??>>".padEnd(10_500, "?"))),
  };
  test.each(sample(Object.entries(codings)))(
    "a valid payment %s is refused as malformed",
    async (_name, recode) => {
      const x402 = await fixture.gateway();
      const offer = (await x402.ask()).v2.accepts[0] as PaymentRequirements;
      const { payload } = await signPayment(offer, inTime({ payer: fixture.payer }));
      for (let spaces = 0; spaces < 3; spaces++) {
        const accepted = { ...offer, extra: { ...offer.extra, ...note, note2: " ".repeat(spaces) } };
        const json = JSON.stringify({ ...payload, accepted });
        const recoded = recode(json, text(json));
        if (recoded === text(json)) continue;
        const answer = await x402.post({ "PAYMENT-SIGNATURE": recoded });
        expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.malformed"]);
        expect(answer.json()["detail"]).toMatch(/^the payment header/);
      }
      expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
      const accepted = { ...offer, extra: { ...offer.extra, ...note } };
      expect((await x402.post({ "PAYMENT-SIGNATURE": encodeHeader({ ...payload, accepted }) })).status).toBe(
        202,
      );
    },
  );
});

type Path = readonly string[];

/** Returns the paths of all fields of a payload, including objects. */
function fieldsOf(value: unknown, path: Path = []): Path[] {
  const below =
    typeof value === "object" && value !== null
      ? Object.entries(value).flatMap(([key, inner]) => fieldsOf(inner, [...path, key]))
      : [];
  return path.length === 0 ? below : [path, ...below];
}

function withField(payload: object, path: Path, value: unknown): object {
  const copy = structuredClone(payload) as Record<string, unknown>;
  const parent = path.slice(0, -1).reduce((at, key) => at[key] as Record<string, unknown>, copy);
  parent[path.at(-1) as string] = value;
  return copy;
}

const VALUE = ["payload", "authorization", "value"];
const WRONG = [undefined, null, 7, -1.5, true, "", "x", "x".repeat(3000), [], ["x"], {}, { nope: 1 }];

onlyInLongRun(() => {
  test("the refusal of a payment with a wrong field is a sentence that names the field, in both versions", async () => {
    const x402 = await fixture.gateway();
    const { v2, v1 } = await x402.ask();
    const by = inTime({ payer: fixture.payer });
    const signed = await signPayment(v2.accepts[0] as PaymentRequirements, by);
    const signedV1 = await signPaymentV1(v1[0] as PaymentRequirementsV1, by);
    const whole: [string, object][] = [
      ["PAYMENT-SIGNATURE", { ...withField(signed.payload, VALUE, "1"), extensions: {} }],
      ["X-PAYMENT", withField(signedV1.payload, VALUE, "1")],
    ];
    const said = new Set<string>();
    for (const [name, payload] of whole)
      for (const path of fieldsOf(payload).filter(([, second]) => second !== "extra"))
        for (const wrong of WRONG) {
          const header = encodeHeader(withField(payload, path, wrong));
          const answer = await send(x402.address, { path: JOB_PATH, headers: { [name]: header } });
          const { code, detail } = answer.json<{ code: string; detail: string }>();
          expect(answer.status).toBe(402);
          if (code !== "payment.malformed") continue;
          const what = `${name} ${path.join(".")} = ${String(JSON.stringify(wrong)).slice(0, 20)}`;
          expect(detail, what).toMatch(/^[\w.]+: (?:is|must|has|unknown key)\b/);
          expect(detail, what).toContain(path.at(0));
          expect(detail, what).not.toMatch(
            /undefined|\bexpected\b|received|Invalid|Unrecognized|Too (?:small|big)|pattern/,
          );
          said.add(detail);
        }
    expect(said).toContain("payload.authorization.nonce: is missing");
    expect(said.size).toBeGreaterThan(30);
  });

  test("a valid payment without padding is accepted, whatever its length", async () => {
    const x402 = await fixture.gateway();
    const { payload } = await signedBoth(x402).then(([[, signed]]) => signed);
    for (const note of ["", "1", "12"]) {
      const header = encodeHeader({ ...payload, note }).replace(/=+$/, "");
      expect((await x402.post({ "PAYMENT-SIGNATURE": header })).status).toBe(202);
    }
    expect(await fixture.charged()).toEqual([PRICE]);
  });
});

/** Signs a payment of each version, by one payer. */
async function signedBoth(x402: TestX402) {
  const { v2, v1 } = await x402.ask();
  const by = inTime({ payer: fixture.payer });
  const signed = await signPayment(v2.accepts[0] as PaymentRequirements, by);
  const signedV1 = await signPaymentV1(v1[0] as PaymentRequirementsV1, by);
  return [
    ["PAYMENT-SIGNATURE", signed],
    ["X-PAYMENT", signedV1],
  ] as const;
}

test("an unknown field in the signed part of a payment is refused, and the refusal repeats only as much of the field's name as is needed to find it", async () => {
  const x402 = await fixture.gateway();
  for (const [name, { payload }] of await signedBoth(x402)) {
    const strange = withField(payload, ["payload", "authorization", "n".repeat(3000)], 1);
    const answer = await x402.post({ [name]: encodeHeader(strange) });
    expect(answer.json()["detail"]).toMatch(/^(?=.{67}: )payload\.authorization\.n+\.\.\.: unknown key$/);
  }
});

test("unknown members of the payload are ignored in both versions, and no facilitator gets them", async () => {
  const x402 = await fixture.gateway();
  const strange =
    '"transaction":"AQAB","merchantSignature":null,"Authorization":{"value":"1"},"AUTHORIZATION":null,' +
    '"__proto__":{"permit2Authorization":{}},"permit2authorization":{},"from":"0x1","type":"permit2",';
  for (const [name, { payload, signed }] of await signedBoth(x402)) {
    const json = JSON.stringify(payload).replace('"payload":{', `"payload":{${strange}`);
    const answer = await x402.post({ [name]: text(json) });
    expect([name, answer.status]).toEqual([name, 202]);
    const { paymentPayload } = (await requestOf(x402, answer)) as { paymentPayload: { payload: object } };
    expect(paymentPayload.payload).toEqual(signed);
    expect(Object.keys(paymentPayload.payload)).toEqual(["signature", "authorization"]);
  }
  expect(await fixture.charged()).toEqual([PRICE, PRICE]);
});

onlyInLongRun(() => {
  test.each([[null], [{}], [""], [0], [false], [[]]])(
    "a second way of paying in the payload is refused in both versions, also if it is %j",
    async (second) => {
      const x402 = await fixture.gateway();
      for (const [name, { payload }] of await signedBoth(x402)) {
        const { signature, authorization } = payload.payload;
        for (const two of [
          { signature, authorization, permit2Authorization: second },
          { permit2Authorization: second, signature, authorization },
          { signature, authorization: second, permit2Authorization: authorization },
        ]) {
          const answer = await x402.post({ [name]: encodeHeader({ ...payload, payload: two }) });
          expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.malformed"]);
        }
      }
      expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    },
  );
});

test.each(sample(["Payload", "Re\u017fource", "PAYLOAD", "Accepted", "networ\u212a", "x402version"]))(
  "a payment with a member %s is refused, because a facilitator could mistake it for the member that it resembles",
  async (member) => {
    const x402 = await fixture.gateway();
    for (const [name, { payload }] of await signedBoth(x402)) {
      const answer = await x402.post({ [name]: encodeHeader({ ...payload, [member]: payload.payload }) });
      expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.malformed"]);
      expect(answer.json()["detail"]).toMatch(/must be written /);
    }
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  },
);

const WITHOUT_0X: readonly [string, (payload: PaymentPayload["payload"]) => object][] = [
  ["signature", ({ signature }) => ({ signature: String(signature).slice(2) })],
  ["nonce", ({ authorization }) => ({ authorization: bare(authorization, "nonce") })],
  ["sender", ({ authorization }) => ({ authorization: bare(authorization, "from") })],
];
test.each(sample(WITHOUT_0X))(
  "a payment whose %s is hex without 0x is refused in both versions",
  async (_what, change) => {
    const x402 = await fixture.gateway();
    for (const [name, { payload }] of await signedBoth(x402)) {
      const changed = { ...payload.payload, ...change(payload.payload) };
      const answer = await x402.post({ [name]: encodeHeader({ ...payload, payload: changed }) });
      expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.malformed"]);
      expect(answer.json()["detail"]).toMatch(/^payload\..*: must be 0x and/);
    }
  },
);

function bare(authorization: unknown, name: string): object {
  const fields = authorization as Record<string, string>;
  return { ...fields, [name]: fields[name]?.slice(2) };
}

/** Returns the request that the facilitator received. */
const requestOf = async (x402: TestX402, answer: Answer) => (await x402.journal.find(idIn(answer)))?.request;

describe("members outside the signed part", () => {
  const [BESIDE, NULL] = [{ note: { is: "mine" }, list: [1] }, null];
  const BESIDES: readonly [string, object][] = [
    ["fields that the protocol does not have", BESIDE],
    ["extensions: null", { extensions: NULL }],
    ["resource: null", { resource: NULL }],
    ["a scheme and a network that agree with accepted", { scheme: "exact", network: "eip155:84532" }],
    ["the network's name in version 1", { network: "base-sepolia" }],
    ["an extension that was not declared", { extensions: { other: "anything" } }],
  ];
  test.each(sample(BESIDES))(
    "a version 2 payment with %s is accepted, and goes to the facilitator as it came, for our own resource",
    async (_name, beside) => {
      const x402 = await fixture.gateway();
      const { accepts, resource } = (await x402.ask()).v2;
      const { payload } = await signPayment(
        accepts[0] as PaymentRequirements,
        inTime({ payer: fixture.payer }),
      );
      const sent = { ...payload, ...beside };
      const { extensions, ...rest } = sent;
      const headers = { "PAYMENT-SIGNATURE": encodeHeader(sent) };
      const [first, again] = [await x402.post(headers), await x402.post(headers)];
      expect([first.status, again.status, withoutPayerFields(again)]).toEqual([
        202,
        202,
        withoutPayerFields(first),
      ]);
      expect((await requestOf(x402, first))?.paymentPayload).toEqual({
        ...rest,
        resource,
        ...(extensions && { extensions }),
      });
      expect(await fixture.charged()).toEqual([PRICE]);
    },
  );

  test("the members that a client adds to the accepted offer have no effect, and the facilitator gets our own offer", async () => {
    const x402 = await fixture.gateway();
    const offer = (await x402.ask()).v2.accepts[0] as PaymentRequirements;
    const { payload } = await signPayment(offer, inTime({ payer: fixture.payer }));
    const accepted = { ...offer, maxAmountRequired: "1", description: "mine", price: null };
    const answer = await x402.post({ "PAYMENT-SIGNATURE": encodeHeader({ ...payload, accepted }) });
    expect(answer.status).toBe(202);
    expect(await requestOf(x402, answer)).toMatchObject({
      paymentPayload: { accepted },
      paymentRequirements: offer,
    });
    expect(await fixture.charged()).toEqual([PRICE]);
  });

  const CONTRADICTIONS: readonly [string, object][] = [
    ["another scheme than accepted", { scheme: "upto" }],
    ["no scheme", { scheme: null }],
    ["another network than accepted", { network: "eip155:8453" }],
    ["another network's name", { network: "base" }],
    ["a network that is not a string", { network: 84_532 }],
  ];
  onlyInLongRun(() => {
    test.each(CONTRADICTIONS)(
      "a version 2 payment with %s beside accepted is refused, because a facilitator might believe it",
      async (_name, beside) => {
        const x402 = await fixture.gateway();
        const offer = (await x402.ask()).v2.accepts[0] as PaymentRequirements;
        const { payload } = await signPayment(offer, inTime({ payer: fixture.payer }));
        const answer = await x402.post({ "PAYMENT-SIGNATURE": encodeHeader({ ...payload, ...beside }) });
        expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.malformed"]);
        expect(answer.json()["detail"]).toMatch(/^(scheme|network): differs from accepted\./);
        expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
      },
    );

    test("a version 1 payment that names its token is accepted, and one that names another token is refused", async () => {
      const x402 = await fixture.gateway();
      const [offer] = (await x402.ask()).v1;
      const { payload } = await signPaymentV1(
        offer as PaymentRequirementsV1,
        inTime({ payer: fixture.payer }),
      );
      const naming = (asset: unknown) =>
        x402.post({ "X-PAYMENT": encodeHeader({ ...payload, asset, note: 1 }) });
      const other = await naming("0x2222222222222222222222222222222222222222");
      expect([other.status, other.json()["code"]]).toEqual([402, "payment.not_offered"]);
      expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
      expect((await naming(offer?.asset.toLowerCase())).status).toBe(202);
      expect(await fixture.charged()).toEqual([PRICE]);
    });
  });
});
