import { type CallRoutesDeps, callRoutes } from "../../../shared/ingress/call-routes.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { SignIn } from "../sign-in/sign-in.ts";

type Deps = Pick<CallRoutesDeps, "results" | "streams" | "clientKeyOf"> & {
  journal: Pick<PaymentJournal, "look">;
  signIn: SignIn;
};

/** The routes that read a paid call. Its state has the transaction that has paid it back, which the chain shows anyway. */
export function paidCallRoutes({ journal, signIn, ...others }: Deps) {
  return callRoutes("x402", {
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
