import type { PaymentPayload, PaymentRequirements } from "@x402/core/types";
import type { PaymentRequirementsV1 } from "@x402/core/types/v1";
import fc from "fast-check";
import { expect, test } from "vitest";
import { inTime, JOB_PATH, type TestX402, useX402 } from "../../../fixtures/x402.ts";
import { send } from "../../../support/http.ts";
import { LONG_RUN, onlyInLongRun } from "../../../support/long-run.ts";
import { encodeHeader, signPayment, signPaymentV1 } from "../../../support/sign-payment.ts";

const fixture = useX402();
const MUTATIONS_OF_A_FIELD = LONG_RUN ? 30 : 1;

type Path = readonly string[];
type Leaf = string | number;

/** Returns every value in a payload that is not an object. */
function leavesOf(value: unknown, path: Path = []): { path: Path; value: Leaf }[] {
  if (typeof value !== "object" || value === null) return [{ path, value: value as Leaf }];
  return Object.entries(value).flatMap(([key, each]) => leavesOf(each, [...path, key]));
}

/** Returns the payload with another value at the path. `undefined` removes the field. */
function withLeaf(payload: object, path: Path, value: unknown): object {
  const copy = structuredClone(payload) as Record<string, unknown>;
  const parent = path.slice(0, -1).reduce((at, key) => at[key] as Record<string, unknown>, copy);
  parent[path.at(-1) as string] = value;
  return copy;
}

/** Changes one digit of a hex or decimal number. A change of the letter case would not change the value. */
function otherDigit(text: string) {
  const digits = /^0x/.test(text) ? "0123456789abcdef" : "0123456789";
  const first = text.startsWith("0x") ? 2 : 0;
  return fc
    .tuple(fc.integer({ min: first, max: Math.max(first, text.length - 1) }), fc.constantFrom(...digits))
    .map(([at, digit]) => text.slice(0, at) + digit + text.slice(at + 1));
}

const anything = fc.oneof(
  fc.constantFrom(undefined, null, "", "0", "0x", 0, -1, true, {}, [], "\u0000"),
  fc.string({ maxLength: 70 }),
  fc.integer(),
  fc.double({ noNaN: true }),
);

function others(value: Leaf) {
  if (typeof value === "number")
    return fc.oneof(anything, fc.constantFrom(value + 1, value - 1, String(value)));
  const near = fc.oneof(
    otherDigit(value),
    fc.constantFrom(`${value}0`, `0${value}`, ` ${value}`, value.slice(1)),
  );
  return fc.oneof(anything, near);
}

const isSame = (a: unknown, b: unknown) =>
  String(a).toLowerCase() === String(b).toLowerCase() && typeof a === typeof b;

/** This field is not signed, and only its path is compared (offer.test.ts). */
const URL_OF_RESOURCE = "resource.url";

/** Older offers did not have this field, so a payment may omit it (offer.test.ts). */
const PAYMENT_FLOW = "accepted.extra.paymentFlow";

/**
 * Expects that each changed payment is refused with a 402 and no facilitator is called, and that the unchanged payment is then accepted.
 */
async function expectEachRefused(
  x402: TestX402,
  payload: object,
  { header, leaves: expected }: { header: string; leaves: number },
): Promise<void> {
  const leaves = leavesOf(payload).filter(({ path }) => path.join(".") !== URL_OF_RESOURCE);
  expect(leaves.length).toBe(expected);
  for (const { path, value } of leaves) {
    const mayBeAbsent = path.join(".") === PAYMENT_FLOW;
    const mutation = others(value).filter(
      (each) => !isSame(each, value) && !(mayBeAbsent && (each ?? null) === null),
    );
    await fc.assert(
      fc.asyncProperty(mutation, async (other) => {
        const headers = { [header]: encodeHeader(withLeaf(payload, path, other)) };
        const answer = await send(x402.address, { path: JOB_PATH, headers, body: "hello" });
        expect([path, answer.status]).toEqual([path, 402]);
      }),
      { numRuns: MUTATIONS_OF_A_FIELD },
    );
  }
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  expect(await x402.waiting()).toEqual([]);
  expect((await x402.post({ [header]: encodeHeader(payload) })).status).toBe(202);
}

test("a version 2 payment with any one field changed is refused with 402 before a facilitator is asked", async () => {
  const x402 = await fixture.gateway();
  const required = (await x402.ask()).v2;
  const offer = required.accepts[0] as PaymentRequirements;
  const resource = { url: String(required.resource?.url) };
  const more = { resource } as Partial<PaymentPayload>;
  const { payload } = await signPayment(offer, inTime({ payer: fixture.payer }), more);
  await expectEachRefused(x402, payload, { header: "PAYMENT-SIGNATURE", leaves: 20 });
});

test("a payment whose offer's MAC differs in the spare bits of its last digit is refused with 402", async () => {
  const x402 = await fixture.gateway();
  const offer = (await x402.ask()).v2.accepts[0] as PaymentRequirements;
  const { payload } = await signPayment(offer, inTime({ payer: fixture.payer }));
  const mac = String(offer.extra["quoteMac"]);
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const sameBytes = mac.slice(0, -1) + digits[digits.indexOf(mac.slice(-1)) + 1];
  expect(Buffer.from(sameBytes, "base64url")).toEqual(Buffer.from(mac, "base64url"));
  const respelled = withLeaf(payload, ["accepted", "extra", "quoteMac"], sameBytes);
  expect((await x402.post({ "PAYMENT-SIGNATURE": encodeHeader(respelled) })).status).toBe(402);
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
});

onlyInLongRun(() => {
  test("a version 1 payment with any one field changed is refused with 402 before a facilitator is asked", async () => {
    const x402 = await fixture.gateway();
    const offer = (await x402.ask()).v1[0] as PaymentRequirementsV1;
    const { payload } = await signPaymentV1(offer, inTime({ payer: fixture.payer }));
    await expectEachRefused(x402, payload, { header: "X-PAYMENT", leaves: 10 });
  });
});
