import type { BulkRunView } from "../../../shared/console/bulk-runs.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import type { TestOperator } from "../../fixtures/console.ts";

/** The run at this path, once it is in one of these states. */
export async function runIn(
  { get }: TestOperator,
  path: string,
  ...states: BulkRunView["state"][]
): Promise<BulkRunView> {
  let run: BulkRunView | undefined;
  await eventually(`the run is ${states.join(" or ")}`, async () => {
    run = (await get(path)).json<BulkRunView>();
    return states.includes(run.state);
  });
  return run as BulkRunView;
}
