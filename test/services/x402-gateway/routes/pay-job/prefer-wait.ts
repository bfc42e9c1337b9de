import { decodePaymentResponseHeader } from "@x402/core/http";
import type { Inject } from "../../../../../services/producer/producer.ts";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { useInjecting } from "../../../../fixtures/injecting.ts";
import type { TestX402, X402Fixture } from "../../../../fixtures/x402.ts";
import { paymentIn } from "../../../../support/books.ts";
import type { Answer } from "../../../../support/http.ts";
import { deliverResultOn } from "../../../../support/results.ts";

export const WAIT = { Prefer: "wait=30" };

/** What a runner delivers of a long call. */
export const delivered = (body: string) => ({
  ...({ kind: "answer", status: 200, contentType: "text/plain", at: 1, by: "delivery" } as const),
  body: Buffer.from(body),
});

/** What an answer says of the payment. */
export function settlementIn({ headers }: Answer, name = "payment-response") {
  return decodePaymentResponseHeader(String(headers[name]));
}

export const untilWaiting = ({ gateway }: TestX402, count: number) =>
  eventually(`${count} wait`, () => gateway.waiting() === count);

/** For payments whose clients wait for the result. */
export function usePreferWait(fixture: X402Fixture) {
  const injecting = useInjecting(fixture.redis, "x402");
  return {
    /** From now on this is the runner. */
    inject: (run: Inject) => injecting(run),

    /** A payment whose call a producer takes, so that it is not among those that wait. */
    async payment(x402: TestX402, { v1 = false } = {}): Promise<Record<string, string>> {
      const headers = await (v1 ? x402.payV1 : x402.pay)({ payer: fixture.payer });
      fixture.foreign.push(paymentIn(headers)?.nonce ?? "");
      return headers;
    },

    /** The calls that wait come to this, without a producer. */
    async endAll(x402: TestX402, body = "done"): Promise<void> {
      const deliver = deliverResultOn(fixture.redis.partition);
      for (const { id } of await x402.waiting()) await deliver(id, delivered(body));
    },
  };
}
