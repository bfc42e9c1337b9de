import { CALL_ID } from "../../shared/call/call-id.ts";
import type { Operations } from "../../shared/console/contract/contract.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";

/** The ids of these calls, each of which is named by its id or by a prefix of it that no other call has. */
export async function callIdsOf(operations: Operations, named: readonly string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const each of named) ids.push(await callIdOf(operations, each));
  return ids;
}

/** The id of a call that is named by it or by a prefix of it. Throws unless the prefix is that of one call. */
export async function callIdOf({ listCalls }: Operations, named: string): Promise<string> {
  if (CALL_ID.test(named)) return named;
  const { calls, is_complete: isComplete } = await listCalls({ id: named, limit: SHOWN });
  const [only, ...others] = calls.map(({ id }) => id);
  if (only !== undefined && others.length === 0 && (isComplete || named.length >= LONG)) return only;
  if (only !== undefined && others.length > 0)
    throw new Error(`several calls have an id that starts with ${named}: ${[only, ...others].join(", ")}`);
  const reason = isComplete
    ? `no listed call has an id that starts with ${named}; an older call is found only by its whole id`
    : `there are too many calls to find the one whose id starts with ${named}; give the whole id`;
  throw AppError.public("call.unknown", reason);
}

const SHOWN = 3;

/** A prefix of this length is that of one call among many millions, also if not all of them were looked at. */
const LONG = 14;
