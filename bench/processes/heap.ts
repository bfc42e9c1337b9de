import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { serveJson } from "./tell.ts";

/*
 * Serves, on its own port (`bench.heap` in the log), the number of bytes that a process keeps after a garbage collection. This
 * script is loaded into the process whose memory is measured.
 */
setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

serveJson("bench.heap", () => {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
});
