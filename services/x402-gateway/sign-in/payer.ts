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
import { type Chains, throwUnavailable } from "../payment/chains.ts";
import { type ClaimedSignIn, notSignedIn, type ReadSignIn } from "./header.ts";
import type { UseNonce } from "./nonce.ts";

/**
 * Limit on successful sign-ins per minute to one call. A client that polls for the result every two seconds needs half of them.
 */
const PER_CALL = 60;
/**
 * Time for which the answer of a payer's contract about a signature is kept. If the same client address sends the same signature
 * within this time, the contract is not called again.
 */
const ANSWER_KEPT_MS = 2000;

/**
 * Limits per minute. `contractChecks` limits, for each client address, the sign-ins that a payer's contract refuses. `perCall`
 * limits, for each call, the successful sign-ins.
 */
export type SignInAllowances = { contractChecks: Allowance; perCall: Allowance };

export function createSignInAllowances(perAddress: number, clock: Clock): SignInAllowances {
  const contractChecks = createAllowance({
    perMinute: perAddress,
    what: "sign-ins by contracts of address",
    publicDetail: "too many sign-ins from this address were not signed by the payer's wallet",
    clock,
  });
  const perCall = createAllowance({
    perMinute: PER_CALL,
    what: "sign-ins to call",
    publicDetail: "too many sign-ins to this call",
    clock,
  });
  return { contractChecks, perCall };
}

type Deps = {
  readSignIn: ReadSignIn;
  journal: Pick<PaymentJournal, "findWithoutCall">;
  chains: Pick<Chains, "of">;
  useNonces: Partitioned<UseNonce>;
  allowances: SignInAllowances;
  clientKeyOf: (req: IncomingMessage) => string;
  clock: Clock;
};

/**
 * Creates the check that the payer of a call has signed in: the payer has signed the message, and its nonce is unused. Cheap
 * checks come first: the form and the nonce, the signer, and then the journal. A contract is called only if it is the payer
 * itself. The nonce is used up last. The check throws `result.sign_in_required` and `request.rate_limited`. It throws
 * `result.sign_in_unavailable` if the node of the payer's chain does not answer. It also throws the errors of the journal.
 */
export function createAssertSignedIn(deps: Deps) {
  const { readSignIn, journal, chains, useNonces, allowances, clientKeyOf, clock } = deps;
  const answers = createShortCache<ContractAnswer>({
    keptMs: ANSWER_KEPT_MS,
    keeps: (answer) => answer.kind === "done" || toAppError(answer.error).code === "result.sign_in_required",
    clock,
  });

  /**
   * Calls the payer's contract, on the chain of the payment. The network that the signed message names is not used: on another
   * chain, the same address may belong to a stranger.
   */
  async function callContract(
    claimed: ClaimedSignIn,
    digest: Uint8Array,
    { terms }: Payment,
    clientKey: string,
  ) {
    const tokenChain = chains.of(terms);
    if (typeof tokenChain === "string")
      throw notSignedIn("no node of the payer's chain can check a wallet's signature");
    const release = allowances.contractChecks.use(clientKey);
    const { address: signer, signature } = claimed;
    const asking = tokenChain.readLimit.within(clientKey, () =>
      tokenChain.chain.acceptsSignature({ signer, digest, signature }),
    );
    if (!(await asking.catch((cause: unknown) => throwUnavailable(cause, "result.sign_in_unavailable"))))
      throw notSignedIn("the payer's wallet does not accept the signature");
    return { release };
  }

  return async function assertSignedIn(req: IncomingMessage, callId: string): Promise<void> {
    const claimed = readSignIn(req, callId);
    const { address, message, signature, nonce, nonceIssuedAt } = claimed;
    const digest = personalMessageDigest(toSignInText(message));
    const isByKey = recoverAddress(digest, withParity(signature)) === address;
    const payment = await journal.findWithoutCall(callId);
    if (payment === undefined || payment.terms.payer !== address)
      throw notSignedIn("address: must be that of the call's payer");
    if (!isByKey) {
      // `signedSha256` is undefined if the payer's key has signed the payment. Then the same key must sign in, and no contract is
      // asked, so that a stranger cannot make the gateway call a node. If `signedSha256` is set, the payer is a contract, which
      // the gateway asks.
      if (payment.signedSha256 === undefined) throw notSignedIn("signature: must be by the payer's key");
      const clientKey = clientKeyOf(req);
      const answerKey = `${nonce} ${sha256Hex(Buffer.from(`${toHex(digest)} ${signature}`))} ${clientKey}`;
      const { release } = await answers.get(answerKey, () =>
        callContract(claimed, digest, payment, clientKey),
      );
      release();
    }
    const releaseCall = allowances.perCall.use(callId);
    const problem = await useNonces.of(callId)(nonce, nonceIssuedAt);
    if (problem === undefined) return;
    releaseCall();
    throw notSignedIn(`nonce: ${problem}`);
  };
}

type ContractAnswer = { release(): void };

/** Returns the signature with a last byte of 27 or 28. Some hardware wallets write 0 or 1 there. */
function withParity(signature: Hex): Hex {
  if (!/0[01]$/.test(signature)) return signature;
  return `${signature.slice(0, -2)}${signature.endsWith("0") ? "1b" : "1c"}` as Hex;
}
