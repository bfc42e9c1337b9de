import type { IncomingMessage } from "node:http";
import type { X402Toml } from "../../../shared/config/x402-toml.ts";
import type { Secret } from "../../../shared/crypto/secret.ts";
import { toAppError } from "../../../shared/errors/app-error.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import type { Clock } from "../../../shared/time/clock.ts";
import type { Chains } from "../chains.ts";
import { type AskForSignIn, createAskForSignIn, createTermsOf } from "./challenge.ts";
import { createReadSignIn, hasSignIn } from "./header.ts";
import { createSignInNonces, createUseNonce } from "./nonce.ts";
import { type AssertSignedIn, createAssertSignedIn, createSignInAllowances } from "./payer.ts";

type Deps = {
  journal: Pick<PaymentJournal, "look">;
  chainOf: Chains["of"];
  partition: Partition;
  partyOf: (req: IncomingMessage) => string;
  clock: Clock;
  /** By which nonces are made and judged. */
  redisTime: Clock;
};

/** How whoever has paid for a call proves it with his wallet: the x402 extension sign-in-with-x (CAIP-122, EIP-4361). */
export type SignIn = {
  ask: AskForSignIn;
  assertPayer: AssertSignedIn;
  /** Whether the request proves it. One without a sign-in, or with a bad one, does not; what else `assertPayer` throws is thrown. */
  isPayer(req: IncomingMessage, callId: string): Promise<boolean>;
};

export function createSignIn(x402: X402Toml, deps: Deps): SignIn {
  const { journal, chainOf, partition, partyOf, clock, redisTime } = deps;
  const nonces = createSignInNonces(x402.quote_secret as [Secret, ...Secret[]], redisTime);
  const termsOf = createTermsOf(x402.public_url);
  const networks = [...new Set(x402.accepted_tokens.map(({ network }) => network))];
  const assertPayer = createAssertSignedIn({
    readSignIn: createReadSignIn({ nonces, termsOf, networks, clock: redisTime }),
    look: journal.look,
    chainOf,
    useNonce: createUseNonce(partition),
    allowances: createSignInAllowances(x402.unpaid_verifies_per_address, clock),
    partyOf,
    clock,
  });
  return {
    ask: createAskForSignIn({ nonces, termsOf, networks }),
    assertPayer,
    async isPayer(req, callId) {
      if (!hasSignIn(req)) return false;
      try {
        await assertPayer(req, callId);
        return true;
      } catch (thrown) {
        if (toAppError(thrown).code === "result.sign_in_required") return false;
        throw thrown;
      }
    },
  };
}
