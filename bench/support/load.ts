import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { LoadOptions, LoadResult } from "../processes/load-protocol.ts";
import { compiled } from "./build.ts";
import { BODY, CONNECTIONS, hookPath, ID_HEADER, keptPath, SIGNATURE } from "./world.ts";

type Wanted = Pick<LoadOptions, "address" | "warmUp" | "calls"> & { connections?: number };
/** Without `jobs`, all calls are of job 1. With ids, each call has a delivery id; kept is what the runner answers of job 1. */
type Calls = Wanted & { jobs?: readonly number[]; withIds?: boolean; isKept?: boolean };

/**
 * Sends so many signed calls from a process of its own, spread evenly over the jobs, and throws when one of them was not
 * answered with 202.
 */
export function load({ jobs = [1], withIds = false, isKept = false, ...wanted }: Calls): Promise<LoadResult> {
  return send({
    paths: jobs.map((job) => (isKept ? keptPath(job) : hookPath(job, withIds))),
    headers: [`X-Signature-256: ${SIGNATURE}`],
    ...(withIds && { idHeader: ID_HEADER }),
    status: 202,
    ...wanted,
  });
}

type Sent = Wanted &
  Pick<LoadOptions, "paths" | "headersFile" | "idHeader" | "status"> & { headers?: readonly string[] };

/** Sends so many POSTs from a process of its own, and throws when one of them was answered otherwise than wanted. */
export async function send(sent: Sent): Promise<LoadResult> {
  const result = await sendAny(sent);
  if (Object.keys(result.refused).length === 0 && result.unanswered === 0) return result;
  throw new Error(`calls were refused, so the rate says nothing: ${JSON.stringify(result)}`);
}

/** Sends so many POSTs from a process of its own, whatever the answers. */
export async function sendAny({
  connections = CONNECTIONS,
  headers = [],
  ...rest
}: Sent): Promise<LoadResult> {
  const options: LoadOptions = { body: BODY, connections, headers, ...rest };
  const script = compiled("bench/processes/load.ts");
  const { stdout } = await promisify(execFile)(process.execPath, [script, JSON.stringify(options)]);
  return JSON.parse(stdout) as LoadResult;
}
