import type { IncomingMessage } from "node:http";
import { type Hex, toHex } from "../../../shared/chain/encoding.ts";
import { toSignInText } from "../../../shared/chain/sign-in-message.ts";
import { personalMessageDigest, recoverAddress } from "../../../shared/chain/signatures.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { Payment } from "../../../shared/payments/payment.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { toAppError } from "../../../shared/platform/errors/app-error.ts";
import { type Allowance, createAllowance } from "../../../shared/platform/lifecycle/allowance.ts";
import { createShortCache } from "../../../shared/platform/lifecycle/short-cache.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import type { Partitioned } from "../../../shared/redis/partition.ts";
import { asUnavailable, type Chains } from "../payment/chains.ts";
import { type ClaimedSignIn, notSignedIn, type ReadSignIn } from "./header.ts";
import type { UseNonce } from "./nonce.ts";

/** How often a minute the payer of one call may sign in: as often as a client asks that comes back every two seconds, and twice that. */
const PER_CALL = 60;
/** For so long a contract is not asked again about the same signature of the same client. */
const ANSWER_KEPT_MS = 2000;

/** How many sign-ins a minute may ask a contract in vain, for each address; and how many may succeed, for each call. */
export type SignInAllowances = { contractChecks: Allowance; ofCalls: Allowance };

export function createSignInAllowances(perAddress: number, clock: Clock): SignInAllowances {
  const contractChecks = createAllowance({
    perMinute: perAddress,
    what: "sign-ins by contracts of address",
    publicDetail: "too many sign-ins from this address were not signed by the payer's wallet",
    clock,
  });
  const ofCalls = createAllowance({
    perMinute: PER_CALL,
    what: "sign-ins to call",
    publicDetail: "too many sign-ins to this call",
    clock,
  });
  return { contractChecks, ofCalls };
}

type Deps = {
  readSignIn: ReadSignIn;
  /** What is known of a call's payment. */
  journal: Pick<PaymentJournal, "look">;
  chains: Pick<Chains, "of">;
  useNonces: Partitioned<UseNonce>;
  allowances: SignInAllowances;
  clientKeyOf: (req: IncomingMessage) => string;
  clock: Clock;
};

/**
 * Asserts that a request is its call's payer's: it brings a sign-in that the payer has signed, and that nobody has used before. What costs
 * more comes later: the form and the nonce, the signer, the journal, a contract's word only if it is the payer's, and last the nonce is
 * used up. Throws `result.sign_in_required`, `request.rate_limited`, `result.sign_in_unavailable` if the node of the payer's chain does not
 * answer, and what the journal throws.
 */
export function createAssertSignedIn(deps: Deps) {
  const { readSignIn, journal, chains, useNonces, allowances, clientKeyOf, clock } = deps;
  const answers = createShortCache<Asked>({
    keptMs: ANSWER_KEPT_MS,
    keeps: (answer) => answer.kind === "done" || toAppError(answer.error).code === "result.sign_in_required",
    clock,
  });

  /** A contract is what it is on the chain of the payment, whichever of our chains the message names: elsewhere it may be a stranger's. */
  async function ask(claimed: ClaimedSignIn, digest: Uint8Array, { terms }: Payment, clientKey: string) {
    const its = chains.of(terms);
    if (typeof its === "string")
      throw notSignedIn("no node of the payer's chain can check a wallet's signature");
    const release = allowances.contractChecks.use(clientKey);
    const { address: signer, signature } = claimed;
    const asking = its.turns.within(clientKey, () => its.chain.hasSigned({ signer, digest, signature }));
    if (!(await asking.catch((cause: unknown) => asUnavailable(cause, "result.sign_in_unavailable"))))
      throw notSignedIn("the payer's wallet does not accept the signature");
    return { release };
  }

  return async function assertSignedIn(req: IncomingMessage, callId: string): Promise<void> {
    const claimed = readSignIn(req, callId);
    const { address, message, signature, nonce, nonceIssuedAt } = claimed;
    const digest = personalMessageDigest(toSignInText(message));
    const isByKey = recoverAddress(digest, withParity(signature)) === address;
    const payment = await journal.look(callId);
    if (payment === undefined || payment.terms.payer !== address)
      throw notSignedIn("address: must be that of the call's payer");
    if (!isByKey) {
      // Whoever pays with a key has it, and nobody else leads us to ask a node for him.
      if (payment.signedSha256 === undefined) throw notSignedIn("signature: must be by the payer's key");
      const clientKey = clientKeyOf(req);
      const asked = `${nonce} ${sha256Hex(Buffer.from(`${toHex(digest)} ${signature}`))} ${clientKey}`;
      const { release } = await answers.get(asked, () => ask(claimed, digest, payment, clientKey));
      release();
    }
    const releaseCall = allowances.ofCalls.use(callId);
    const problem = await useNonces.of(callId)(nonce, nonceIssuedAt);
    if (problem === undefined) return;
    releaseCall();
    throw notSignedIn(`nonce: ${problem}`);
  };
}

type Asked = { release(): void };

/** Some hardware wallets end a signature with 0 or 1, where others have 27 or 28. */
function withParity(signature: Hex): Hex {
  if (!/0[01]$/.test(signature)) return signature;
  return `${signature.slice(0, -2)}${signature.endsWith("0") ? "1b" : "1c"}` as Hex;
}
