import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { LoadOptions, LoadResult } from "../processes/load-protocol.ts";
import { compiled } from "./build.ts";
import { BODY, CONNECTIONS, HOOK_PATH, SECRET } from "./world.ts";

type Wanted = Pick<LoadOptions, "address" | "warmUp" | "calls"> & { connections?: number };

/** Sends so many signed calls from a process of its own, and throws when one of them was not answered with 202. */
export async function load({ connections = CONNECTIONS, ...wanted }: Wanted): Promise<LoadResult> {
  const options: LoadOptions = { ...wanted, connections, path: HOOK_PATH, body: BODY, secret: SECRET };
  const script = compiled("bench/processes/load.ts");
  const { stdout } = await promisify(execFile)(process.execPath, [script, JSON.stringify(options)]);
  const result = JSON.parse(stdout) as LoadResult;
  if (Object.keys(result.refused).length > 0 || result.unanswered > 0) {
    throw new Error(`calls were refused, so the rate says nothing: ${stdout}`);
  }
  return result;
}
