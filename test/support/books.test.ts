import { describe, expect, test } from "vitest";
import { paymentCallId } from "../../shared/payments/payment.ts";
import { type Books, type ClientAnswer, violationsIn } from "./books.ts";

const payment = { payer: "0xaa", nonce: "0x01" };
const ID = paymentCallId({ chainId: 1, method: "eip3009", asset: "0xCC", ...payment });
const transfer = {
  from: payment.payer,
  to: "0xbb",
  value: 1n,
  nonce: payment.nonce,
  taker: "0xCC",
  transaction: "0x02",
  blockNumber: 1n,
} as const;
const accepted: ClientAnswer = { payment, status: 202, code: undefined, dispatched: true };

const balanced: Books = {
  chainId: 1,
  asset: "0xCC",
  transfers: [transfer],
  calls: [ID],
  told: [accepted],
  voids: [],
};
const refused = (code: string, dispatched = true): ClientAnswer => ({
  payment,
  status: 402,
  code,
  dispatched,
});

describe("the check of the tests' own books", () => {
  test("finds no violation if every charge has its call", () => {
    expect(violationsIn(balanced)).toEqual([]);
  });

  const wrong: Record<string, [Partial<Books>, string]> = {
    "a charge without a call": [{ calls: [] }, "has no call"],
    "a call without a charge": [{ transfers: [] }, "is not paid"],
    "a charge without an authorization": [
      { transfers: [transfer, { ...transfer, nonce: undefined }] },
      "has no call",
    ],
    "two charges": [{ transfers: [transfer, transfer] }, "is paid twice"],
    "two calls": [{ calls: [ID, ID] }, "has two calls"],
    "a charge for a refusal": [
      { told: [refused("payment.rejected", false)], foreign: [], calls: [ID] },
      "was refused",
    ],
    "a 402 after a settle": [{ told: [refused("payment.rejected"), accepted] }, "after its settle"],
    "a VOID that is paid": [{ told: [refused("payment.void"), accepted], voids: [ID] }, "VOID, and paid"],
    "a 402 of VOID for a payment that is not VOID": [
      { told: [refused("payment.void")], transfers: [], calls: [] },
      "and not VOID",
    ],
  };
  test.each(Object.entries(wrong))("finds this violation: %s", (_name, [change, found]) => {
    expect(violationsIn({ ...balanced, ...change }).join("; ")).toContain(found);
  });
});
