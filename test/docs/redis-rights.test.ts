import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { aclRules } from "../../shared/redis/acl-rights.ts";
import { KINDS } from "../../shared/telemetry/processes/process.ts";

test.each(KINDS)(
  "docs/operations/redis-users.txt lists the rights of %s as `postern redis-acl` prints them",
  (kind) => {
    const text = readFileSync(new URL("../../docs/operations/redis-users.txt", import.meta.url), "utf8");
    expect(text).toContain(`ACL SETUSER ${kind} on >PASSWORD ${aclRules(kind)}\n`);
  },
);
