import { toAppError } from "../../../shared/platform/errors/app-error.ts";
import type { Allowance } from "../../../shared/platform/lifecycle/allowance.ts";
import { createShortCache, keepFailures } from "../../../shared/platform/lifecycle/short-cache.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import { asUnavailable, type Chains } from "./chains.ts";
import { type AcceptedPayment, digestOf, notSigned } from "./header.ts";

type Deps = {
  chains: Pick<Chains, "of">;
  /** How many questions a minute may lead to no payment, of each address: anybody can name any contract as the payer. */
  perSigner: Allowance;
  clock: Clock;
};

type ContractSigned = {
  moves: boolean;
  release(): void;
};

/** For so long a refused signature is refused again without asking. */
const REFUSED_MS = 2000;

/** Asks contracts whether they have signed a payment that no key has (ERC-1271, ERC-6492). */
export class ContractSigners {
  readonly #deps: Deps;
  readonly #answers;

  constructor(deps: Deps) {
    this.#deps = deps;
    const keeps = keepFailures(isRefusal);
    this.#answers = createShortCache<ContractSigned>({ keptMs: REFUSED_MS, keeps, clock: deps.clock });
  }

  /**
   * Asks the contract at the payer's address. A question counts against the address that asks, never against the payer, who may know
   * nothing of it; `taken` gets what gives it back, to be called if the payment is settled. Resolves with false if the contract is still
   * to be deployed, and the token does not take its signature then. Throws `payment.signature_invalid`, `request.rate_limited` and
   * `payment.unavailable`.
   */
  async moves(signed: AcceptedPayment, clientKey: string, taken: (() => void)[]): Promise<boolean> {
    const key = `${signed.callId} ${signed.signedSha256} ${clientKey}`;
    const { moves, release } = await this.#answers.get(key, () => this.#ask(signed, clientKey));
    taken.push(release);
    return moves;
  }

  async #ask(signed: AcceptedPayment, clientKey: string): Promise<ContractSigned> {
    const { chains, perSigner } = this.#deps;
    const { token, decoded } = signed;
    const its = chains.of(token);
    if (typeof its === "string") throw notSigned("no node of its chain can check a contract's signature");
    const release = perSigner.use(clientKey);
    const { authorization, method, signature } = decoded;
    const asset = token.asset as `0x${string}`;
    const transfer = { method: method.name, ...authorization, asset };
    const question = { transfer, digest: digestOf(decoded, token), signature };
    const asking = its.turns.within(clientKey, () => its.chain.askContract(question));
    const verdict = await asking.catch(asUnavailable);
    if (verdict.kind === "refused") throw notSigned(verdict.why);
    return { moves: verdict.moves, release };
  }
}

function isRefusal(error: unknown): boolean {
  return toAppError(error).code === "payment.signature_invalid";
}
