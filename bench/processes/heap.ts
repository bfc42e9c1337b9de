import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { tell } from "./tell.ts";

/*
 * Loaded into a process whose memory is watched. It tells on a port of its own (`bench.heap` in the log) how many bytes the process
 * keeps when its garbage is collected.
 */
setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

tell("bench.heap", () => {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
});
