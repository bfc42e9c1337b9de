import { toAppError } from "../../../shared/errors/app-error.ts";
import type { Allowance } from "../../../shared/lifecycle/allowance.ts";
import { createShortCache, keepFailures } from "../../../shared/lifecycle/short-cache.ts";
import type { Clock } from "../../../shared/time/clock.ts";
import { asUnavailable, type Chains } from "../chains.ts";
import { type AcceptedPayment, digestOf, notSigned } from "./header.ts";

type Deps = {
  chainOf: Chains["of"];
  /** How many questions a minute may lead to no payment, of each address: anybody can name any contract as the payer. */
  ofSigners: Allowance;
  clock: Clock;
};

/** The payer's contract has signed. */
export type ContractSigned = {
  /** False if the contract is still to be deployed, and the token does not take its signature then. */
  moves: boolean;
  /** The question does not count any more: it has led to a payment. Twice does nothing. */
  giveBack(): void;
};

export type AskSigner = ReturnType<typeof createAskSigner>;

/** For so long a refused signature is refused again without asking. */
const REFUSED_MS = 2000;

/**
 * Asks the contract at the payer's address whether it has signed a payment that no key has (ERC-1271, ERC-6492). A question counts
 * against the address that asks, never against the payer, who may know nothing of it. Throws `payment.signature_invalid`,
 * `request.rate_limited` and `payment.unavailable`.
 */
export function createAskSigner({ chainOf, ofSigners, clock }: Deps) {
  const answers = createShortCache<ContractSigned>({
    keptMs: REFUSED_MS,
    keeps: keepFailures(isRefusal),
    clock,
  });

  async function ask(signed: AcceptedPayment, party: string): Promise<ContractSigned> {
    const { token, decoded } = signed;
    const its = chainOf(token);
    if (typeof its === "string") throw notSigned("no node of its chain can be asked for a contract's word");
    const giveBack = ofSigners.use(party);
    const { authorization, method, signature } = decoded;
    const transfer = { method, ...authorization, asset: token.asset as `0x${string}` };
    const question = { transfer, digest: digestOf(decoded, token.separator), signature };
    const asking = its.turns.within(party, () => its.chain.askContract(question));
    const verdict = await asking.catch(asUnavailable);
    if (verdict.kind === "refused") throw notSigned(verdict.why);
    return { moves: verdict.moves, giveBack };
  }

  return (signed: AcceptedPayment, party: string): Promise<ContractSigned> =>
    answers.get(`${signed.callId} ${signed.signedSha256} ${party}`, () => ask(signed, party));
}

function isRefusal(error: unknown): boolean {
  return toAppError(error).code === "payment.signature_invalid";
}
