import { type CallRoutesDeps, callRoutes } from "../../../shared/ingress/call-routes.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { SignIn } from "../sign-in/sign-in.ts";

type Deps = Pick<CallRoutesDeps, "results" | "streams" | "clientKeyOf"> & {
  journal: Pick<PaymentJournal, "findWithoutCall">;
  signIn: SignIn;
};

/**
 * Creates the routes that read a paid call. The call's state has the transaction of its refund, which any client may see, because
 * the chain shows it anyway.
 */
export function paidCallRoutes({ journal, signIn, ...others }: Deps) {
  return callRoutes("x402", {
    ...others,
    refusalOf: signIn.refusalOf,
    demandProof: signIn.require,
    async ownMembersOf(callId) {
      const payment = await journal.findWithoutCall(callId);
      if (payment === undefined) return undefined;
      const { refunded, claimedAt } = payment;
      const open = refunded && { refund_transaction: refunded.transaction };
      return { open, proven: { accepted_at: claimedAt } };
    },
    unknownDetail: "no such call",
  });
}
