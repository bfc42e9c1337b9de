import { CALL_ID } from "../../shared/call/call-id.ts";
import type { Operations } from "../../shared/console/contract/contract.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";

/** Returns the ids of the named calls. Each name is an id, or a prefix that only one call has. */
export async function callIdsOf(operations: Operations, named: readonly string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const each of named) ids.push(await callIdOf(operations, each));
  return ids;
}

/** Returns the id of the named call. Throws unless the name is an id, or a prefix that only one call has. */
export async function callIdOf({ listCalls }: Operations, named: string): Promise<string> {
  if (CALL_ID.test(named)) return named;
  const { calls, is_complete: isComplete } = await listCalls({ id: named, limit: SHOWN });
  const [only, ...others] = calls.map(({ id }) => id);
  if (only !== undefined && others.length === 0 && (isComplete || named.length >= UNIQUE_PREFIX_CHARS))
    return only;
  if (only !== undefined && others.length > 0)
    throw new Error(`several calls have an id that starts with ${named}: ${[only, ...others].join(", ")}`);
  const reason = isComplete
    ? `no listed call has an id that starts with ${named}; an older call is found only by its whole id`
    : `there are too many calls to find the one whose id starts with ${named}; give the whole id`;
  throw AppError.public("call.unknown", reason);
}

const SHOWN = 3;

/** A prefix of this length identifies one call among many millions, even if not all calls were searched. */
const UNIQUE_PREFIX_CHARS = 14;
