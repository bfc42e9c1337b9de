// Runs a command with another release of Node. It puts that release first on the PATH of the command. It is plain
// JavaScript because it runs before anything is installed.
//
//  node services/dev/with-node.mjs 24 npm test
import { spawnSync } from "node:child_process";
import { delimiter } from "node:path";
import { installNode, OTHER_NODES } from "./other-node.mjs";

const [release, command, ...args] = process.argv.slice(2);
if (!Object.hasOwn(OTHER_NODES, release ?? "") || command === undefined) {
  console.error(
    `usage: node services/dev/with-node.mjs ${Object.keys(OTHER_NODES).join("|")} COMMAND [ARGUMENT...], for example: 24 npm test`,
  );
  process.exit(2);
}
const bin = installNode(release, process.env);
if (bin === undefined) {
  const why = process.env.POSTERN_NO_INSTALL
    ? "POSTERN_NO_INSTALL is set, so it was not installed"
    : "npm could not install it";
  console.error(`Node.js ${release} is not available: ${why}.`);
  process.exit(1);
}
const { status, signal, error } = spawnSync(command, args, {
  stdio: "inherit",
  env: { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH}` },
});
if (error) throw error;
if (signal) process.kill(process.pid, signal);
process.exit(status ?? 1);
