import { expect } from "vitest";
import type { FailedBulkView } from "../../../shared/console/failed-bulk.ts";
import type { TestOperator } from "../../fixtures/console.ts";

/** A run takes some tenths of a second, and each answer of the console is compared with its document. */
const POLL_MS = 100;

/** Returns the run at this path once it is in one of these states. */
export async function runIn(
  { get }: TestOperator,
  path: string,
  ...states: FailedBulkView["state"][]
): Promise<FailedBulkView> {
  let run: FailedBulkView | undefined;
  const state = async () => {
    run = (await get(path)).json<FailedBulkView>();
    return run.state;
  };
  await expect.poll(state, { interval: POLL_MS }).toBeOneOf(states);
  return run as FailedBulkView;
}
