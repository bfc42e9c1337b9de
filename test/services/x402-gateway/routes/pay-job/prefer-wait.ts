import { decodePaymentResponseHeader } from "@x402/core/http";
import type { Inject } from "../../../../../services/producer/producer.ts";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { useInjecting } from "../../../../fixtures/injecting.ts";
import type { TestX402, X402Fixture } from "../../../../fixtures/x402.ts";
import { paymentIn } from "../../../../support/books.ts";
import type { Answer } from "../../../../support/http.ts";
import { deliverResultOn } from "../../../../support/results.ts";

export const WAIT = { Prefer: "wait=30" };

/** The answer of a long call that a runner delivers. */
export const delivered = (body: string) => ({
  ...({ kind: "answer", status: 200, contentType: "text/plain", at: 1, by: "delivery" } as const),
  body: Buffer.from(body),
});

/** Reads the settlement in an answer's header. */
export function settlementIn({ headers }: Answer, name = "payment-response") {
  return decodePaymentResponseHeader(String(headers[name]));
}

export const untilWaiting = ({ gateway }: TestX402, count: number) =>
  eventually(`${count} wait`, () => gateway.waiting() === count);

/** Tools for payments whose clients wait for the result. */
export function usePreferWait(fixture: X402Fixture) {
  const injecting = useInjecting(fixture.redis, "x402");
  return {
    /** Sets the runner for further calls. */
    inject: (run: Inject) => injecting(run),

    /** Signs a payment. A producer takes its call, so the fixture does not count the call as waiting. */
    async payment(x402: TestX402, { v1 = false } = {}): Promise<Record<string, string>> {
      const headers = await (v1 ? x402.payV1 : x402.pay)({ payer: fixture.payer });
      fixture.foreign.push(paymentIn(headers)?.nonce ?? "");
      return headers;
    },

    /** Ends all waiting calls with this result, without a producer. */
    async endAll(x402: TestX402, body = "done"): Promise<void> {
      const deliver = deliverResultOn(fixture.redis.partition);
      for (const { id } of await x402.waiting()) await deliver(id, delivered(body));
    },
  };
}
