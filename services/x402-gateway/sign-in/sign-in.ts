import type { IncomingMessage } from "node:http";
import type { X402Toml } from "../../../shared/config/x402-toml.ts";
import type { Proves } from "../../../shared/ingress/ask-result.ts";
import type { RefusalOf } from "../../../shared/ingress/call-routes.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import { toAppError } from "../../../shared/platform/errors/app-error.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import type { Partitions } from "../../../shared/redis/partition.ts";
import type { Chains } from "../payment/chains.ts";
import { type AskForSignIn, createAskForSignIn, createTermsOf } from "./challenge.ts";
import { createReadSignIn } from "./header.ts";
import { createSignInNonces, createUseNonce } from "./nonce.ts";
import { createAssertSignedIn, createSignInAllowances } from "./payer.ts";

type Deps = {
  /** Whether a request shows the result token, which needs no sign-in. */
  provesByToken: Proves;
  journal: Pick<PaymentJournal, "look">;
  chains: Pick<Chains, "of">;
  partitions: Partitions;
  clientKeyOf: (req: IncomingMessage) => string;
  clock: Clock;
  /** By which nonces are made and judged. */
  redisTime: Clock;
};

/** How whoever has paid for a call proves it with his wallet: the x402 extension sign-in-with-x (CAIP-122, EIP-4361). */
export type SignIn = {
  ask: AskForSignIn;
  /** Returns why a request does not prove it: it has no result token, and no sign-in or a bad one. Throws what else `assertSignedIn` throws. */
  refusalOf: RefusalOf;
};

export function createSignIn(x402: X402Toml, deps: Deps): SignIn {
  const { provesByToken, journal, chains, partitions, clientKeyOf, clock, redisTime } = deps;
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
    ask: createAskForSignIn({ nonces, termsOf, networks }),
    async refusalOf(req, callId) {
      if (await provesByToken(req, callId)) return undefined;
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
