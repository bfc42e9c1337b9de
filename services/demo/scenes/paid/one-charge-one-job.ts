import { offersOf } from "../../offers.ts";
import type { Demo } from "../../scene.ts";
import type { Buyer } from "../../shop/buyer.ts";
import type { Shop } from "../../shop/shop.ts";
import { usdc } from "../../shop/usdc.ts";
import type { AcceptedCall } from "../../tally.ts";

type Bought = { buyer: Buyer; call: AcceptedCall; units: bigint };

/** Says that the payer was charged once, exactly the price, and that the job had its one effect; waits for that. */
export async function showOneChargeOneJob(
  { stage, runner, world }: Demo,
  shop: Shop,
  { buyer, call, units }: Bought,
): Promise<void> {
  await runner.untilDone([call]);
  await world.logs.runner.forEach("job.finished", [call.callId]);
  const charges = await shop.chain.charges(buyer.address);
  const { runs } = offersOf(world.logs.runner, (callId) => callId === call.callId);
  stage.check(
    `on the chain the payer was charged once, ${usdc(units)} USDC, and at the runner the job ran once`,
    [charges.map((charge) => String(charge.units)), [...runs.values()]],
    [[String(units)], [1]],
  );
}
