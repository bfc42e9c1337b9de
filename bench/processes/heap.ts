import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { serveJson } from "./tell.ts";

/*
 * Measures the memory of the process into which it is loaded, with `node --import`. It serves HTTP on a port of its own,
 * which the process logs as the event `bench.heap`. For each request it collects garbage, and answers with the number of
 * bytes that the process still keeps.
 */
setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

serveJson("bench.heap", () => {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
});
