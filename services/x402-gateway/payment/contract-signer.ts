import { toAppError } from "../../../shared/platform/errors/app-error.ts";
import type { Allowance } from "../../../shared/platform/lifecycle/allowance.ts";
import { createShortCache, keepFailures } from "../../../shared/platform/lifecycle/short-cache.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import { type Chains, throwUnavailable } from "./chains.ts";
import { type AcceptedPayment, digestOf, notSigned } from "./header.ts";

type Deps = {
  chains: Pick<Chains, "of">;
  /**
   * Limit per minute and client address on contract calls for payments that are not made in the end. It is needed because a
   * client can name any contract as the payer.
   */
  contractChecks: Allowance;
  clock: Clock;
};

type ContractSigned = {
  isTransferable: boolean;
  release(): void;
};

/** A refused signature is refused again for this long, without another contract call. */
const REFUSED_MS = 2000;

/**
 * Asks the payer's contract whether it accepts the signature of a payment (ERC-1271, ERC-6492). It is asked only about
 * signatures that the payer's own key has not made.
 */
export class ContractSigners {
  readonly #deps: Deps;
  readonly #answers;

  constructor(deps: Deps) {
    this.#deps = deps;
    const keeps = keepFailures(isRefusal);
    this.#answers = createShortCache<ContractSigned>({ keptMs: REFUSED_MS, keeps, clock: deps.clock });
  }

  /**
   * Calls the payer's contract to check the signature. The call counts against the client's address. It does not count against
   * the payer, because anyone could name that payer. Adds a function to `refunds` that takes the call back from this count. That
   * function must be called once the payment is settled.
   * Resolves with false if the token does not accept the signature because the contract is not deployed yet. Throws
   * `payment.signature_invalid`, `request.rate_limited` and `payment.unavailable`.
   */
  async isTransferable(
    signed: AcceptedPayment,
    clientKey: string,
    refunds: (() => void)[],
  ): Promise<boolean> {
    const key = `${signed.callId} ${signed.signedSha256} ${clientKey}`;
    const { isTransferable, release } = await this.#answers.get(key, () =>
      this.#callContract(signed, clientKey),
    );
    refunds.push(release);
    return isTransferable;
  }

  async #callContract(signed: AcceptedPayment, clientKey: string): Promise<ContractSigned> {
    const { chains, contractChecks } = this.#deps;
    const { token, decoded } = signed;
    const tokenChain = chains.of(token);
    if (typeof tokenChain === "string")
      throw notSigned("no node of its chain can check a contract's signature");
    const release = contractChecks.use(clientKey);
    const { authorization, method, signature } = decoded;
    const asset = token.asset as `0x${string}`;
    const transfer = { method: method.name, ...authorization, asset };
    const question = { transfer, digest: digestOf(decoded, token), signature };
    const asking = tokenChain.readLimit.within(clientKey, () => tokenChain.chain.checkSignature(question));
    const verdict = await asking.catch(throwUnavailable);
    if (verdict.kind === "refused") throw notSigned(verdict.why);
    return { isTransferable: verdict.moves, release };
  }
}

function isRefusal(error: unknown): boolean {
  return toAppError(error).code === "payment.signature_invalid";
}
