import type { TestRedis } from "../../fixtures/redis.ts";
import { audited } from "../../support/audited.ts";

/** Who did what, oldest first. */
export const auditOf = ({ client }: TestRedis) => audited(client);
