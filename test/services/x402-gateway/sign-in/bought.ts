import { idIn, type TestX402, type X402Fixture } from "../../../fixtures/x402.ts";
import type { Payer } from "../../../support/sign-payment.ts";

/** A call that was paid for, with its payer. */
export type Bought = { id: string; payer: Payer; x402: TestX402 };

/** Buys a call with this payer, or with the fixture's own. */
export async function buyCall(fixture: X402Fixture, payer: Payer = fixture.payer): Promise<Bought> {
  const x402 = await fixture.gateway();
  const answer = await x402.post(await x402.pay({ payer }));
  if (answer.status !== 202) throw new Error(`not bought: ${answer.text}`);
  return { id: idIn(answer), payer, x402 };
}
