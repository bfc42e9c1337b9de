import type { TestRedis } from "../../fixtures/redis.ts";
import { audited } from "../../support/audited.ts";

/** Returns the audit lines of all acts except reads, oldest first. */
export const auditOf = ({ client }: TestRedis) => audited(client);
