import type { IncomingMessage } from "node:http";
import type { X402Toml } from "../../../shared/config/x402-toml.ts";
import type { MayReadResult } from "../../../shared/ingress/ask-result.ts";
import type { RefusalOf } from "../../../shared/ingress/call-routes.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import { toAppError } from "../../../shared/platform/errors/app-error.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import type { Partitions } from "../../../shared/redis/partition.ts";
import type { Chains } from "../payment/chains.ts";
import { createRequireSignIn, createTermsOf, type RequireSignIn } from "./challenge.ts";
import { createReadSignIn } from "./header.ts";
import { createSignInNonces, createUseNonce } from "./nonce.ts";
import { createAssertSignedIn, createSignInAllowances } from "./payer.ts";

type Deps = {
  /** Whether a request has the call's result token. Such a request needs no sign-in. */
  mayReadByToken: MayReadResult;
  journal: Pick<PaymentJournal, "findWithoutCall">;
  chains: Pick<Chains, "of">;
  partitions: Partitions;
  clientKeyOf: (req: IncomingMessage) => string;
  clock: Clock;
  /** Clock of Redis, by which nonces are dated and checked. */
  redisTime: Clock;
};

/** Lets a client prove with a wallet that it is the payer of a call, by the x402 extension sign-in-with-x (CAIP-122, EIP-4361). */
export type SignIn = {
  require: RequireSignIn;
  /**
   * Checks that a request has the result token or a valid sign-in of the payer. If it has neither, resolves with the error that
   * the client should get. Throws all errors of `assertSignedIn` except `result.sign_in_required`.
   */
  refusalOf: RefusalOf;
};

export function createSignIn(x402: X402Toml, deps: Deps): SignIn {
  const { mayReadByToken, journal, chains, partitions, clientKeyOf, clock, redisTime } = deps;
  const nonces = createSignInNonces(x402.quote_secret as [Secret, ...Secret[]], redisTime);
  const termsOf = createTermsOf(x402.public_url);
  const networks = [...new Set(x402.accepted_tokens.map(({ network }) => network))];
  const assertSignedIn = createAssertSignedIn({
    readSignIn: createReadSignIn({ nonces, termsOf, networks, clock: redisTime }),
    journal,
    chains,
    useNonces: partitions.map(createUseNonce),
    allowances: createSignInAllowances(x402.unpaid_verifies_per_address, clock),
    clientKeyOf,
    clock,
  });
  return {
    require: createRequireSignIn({ nonces, termsOf, networks }),
    async refusalOf(req, callId) {
      if (await mayReadByToken(req, callId)) return undefined;
      try {
        await assertSignedIn(req, callId);
        return undefined;
      } catch (thrown) {
        const refusal = toAppError(thrown);
        if (refusal.code !== "result.sign_in_required") throw thrown;
        return refusal;
      }
    },
  };
}
