import { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { PaymentTerms } from "../../../shared/payments/payment.ts";
import type { ErrorCode } from "../../../shared/platform/errors/codes.ts";
import type { FailedCallsFixture } from "../../fixtures/failed-calls.ts";
import { queuePayment } from "../../support/made-payment.ts";

/** Two tokens with one symbol on two networks, and one whose amounts exceed a float. */
export const USDC = { network: "eip155:8453", asset: `0x${"a1".repeat(20)}`, symbol: "USDC" };
export const OTHER_USDC = { network: "eip155:1", asset: `0x${"b2".repeat(20)}`, symbol: "USDC" };
export const WIDE = { network: "eip155:1", asset: `0x${"c3".repeat(20)}`, symbol: "WIDE" };

export type PaidFailure = Partial<PaymentTerms> &
  Pick<PaymentTerms, "network" | "asset"> & {
    /** Whether the chain has shown the payment; true by default. */
    isProven?: boolean;
  };

/** Makes paid calls that their runner refuses, without a chain. Resolves with their ids once all have failed. */
export async function failPaid(
  calls: FailedCallsFixture,
  made: readonly PaidFailure[],
  { code = "runner.refused", reason = "no such job" }: { code?: ErrorCode; reason?: string } = {},
): Promise<string[]> {
  const journal = new PaymentJournal(calls.redis.partition);
  const before = await calls.calls.count({});
  calls.runnerAnswers(code, reason);
  const ids: string[] = [];
  for (const { isProven = true, ...terms } of made) ids.push(await queuePayment(journal, terms, isProven));
  await calls.startProducer();
  await calls.untilFailed(before + made.length);
  await calls.stopProducer();
  calls.runnerAnswers();
  return ids;
}
