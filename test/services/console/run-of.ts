import type { FailedBulkView } from "../../../shared/console/failed-bulk.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import type { TestOperator } from "../../fixtures/console.ts";

/** Returns the run at this path once it is in one of these states. */
export async function runIn(
  { get }: TestOperator,
  path: string,
  ...states: FailedBulkView["state"][]
): Promise<FailedBulkView> {
  let run: FailedBulkView | undefined;
  await eventually(`the run is ${states.join(" or ")}`, async () => {
    run = (await get(path)).json<FailedBulkView>();
    return states.includes(run.state);
  });
  return run as FailedBulkView;
}
