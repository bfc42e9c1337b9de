import { Argument } from "commander";
import { KINDS, type ProcessKind } from "../../../shared/telemetry/processes/process.ts";
import { GROUP, type ProgramCommand } from "../command.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";

export function addRedisAcl(program: ProgramCommand, deps: ProgramDeps): void {
  program
    .command("redis-acl")
    .description("print the Redis ACL rules of a process, as a command for redis-cli")
    .helpGroup(GROUP.run)
    .examples("redis-acl producer", "redis-acl webhooks --name shop")
    .addArgument(
      new Argument(
        "<process>",
        "process that uses the rules; operator means the console and the commands",
      ).choices(KINDS),
    )
    .option("--name <name>", "name of the deployment, as [redis] name", "postern")
    .action(async (user: ProcessKind, { name, json }: { name: string; json?: boolean }) => {
      const { aclRules } = await import("../../../shared/redis/acl-rights.ts");
      const rules = aclRules(user, name);
      deps.print(json ? jsonLine({ user, rules }) : `ACL SETUSER ${user} on >PASSWORD ${rules}\n`);
    });
}
