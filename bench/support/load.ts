import { execFile } from "node:child_process";
import { createHmac } from "node:crypto";
import { promisify } from "node:util";
import type { LoadOptions, LoadResult } from "../processes/load-protocol.ts";
import { compiled } from "./build.ts";
import { BODY, CONNECTIONS, HOOK_PATH, SECRET } from "./world.ts";

type Wanted = Pick<LoadOptions, "address" | "warmUp" | "calls"> & { connections?: number };

/** Sends so many signed calls from a process of its own, and throws when one of them was not answered with 202. */
export function load(wanted: Wanted): Promise<LoadResult> {
  const signature = createHmac("sha256", SECRET).update(BODY).digest("hex");
  return send({ path: HOOK_PATH, headers: [`X-Signature-256: sha256=${signature}`], status: 202, ...wanted });
}

type Sent = Wanted & Pick<LoadOptions, "path" | "headersFile" | "status"> & { headers?: readonly string[] };

/** Sends so many POSTs from a process of its own, and throws when one of them was answered otherwise than wanted. */
export async function send({ connections = CONNECTIONS, headers = [], ...rest }: Sent): Promise<LoadResult> {
  const options: LoadOptions = { body: BODY, connections, headers, ...rest };
  const script = compiled("bench/processes/load.ts");
  const { stdout } = await promisify(execFile)(process.execPath, [script, JSON.stringify(options)]);
  const result = JSON.parse(stdout) as LoadResult;
  if (Object.keys(result.refused).length > 0 || result.unanswered > 0) {
    throw new Error(`calls were refused, so the rate says nothing: ${stdout}`);
  }
  return result;
}
