import { type AnswerCallDeps, createAnswerCall } from "../../../shared/ingress/call-routes.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { SignIn } from "../sign-in/sign-in.ts";

type Deps = Pick<AnswerCallDeps, "results" | "streams" | "clientKeyOf"> & {
  journal: Pick<PaymentJournal, "look">;
  signIn: SignIn;
};

/** Answers requests that read a paid call. Its state has the transaction that has paid it back, which the chain shows anyway. */
export function createAnswerPaidCall({ journal, signIn, ...others }: Deps) {
  return createAnswerCall({
    ...others,
    refusalOf: signIn.refusalOf,
    demandProof: signIn.ask,
    async ownMembersOf(callId) {
      const payment = await journal.look(callId);
      if (payment === undefined) return undefined;
      const { refunded, claimedAt } = payment;
      const open = refunded && { refund_transaction: refunded.transaction };
      return { open, proven: { accepted_at: claimedAt } };
    },
    unknownDetail: "no such call",
  });
}
