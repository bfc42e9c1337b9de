import { createCallRecords } from "../../../shared/queue/call-record.ts";
import { createFailedCalls } from "../../../shared/queue/failed.ts";
import type { Redis } from "../../../shared/redis/connect.ts";

/** What is known of a call that is not among the failed ones, as a sentence. */
export async function whereIs(redis: Redis, id: string): Promise<string> {
  const place = await createFailedCalls(redis).placeOf(id);
  if (place !== undefined) return `${id} is not failed: it is ${place} in the queue`;
  const record = await createCallRecords(redis).state(id);
  if (record !== undefined) return `${id} is not failed: its record says ${record.toLowerCase()}`;
  return `${id} is not failed, and nothing is known of it (any more)`;
}
