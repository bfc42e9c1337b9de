import type { IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import { createSessions } from "../../../services/console/auth/sessions.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { connectForWork } from "../../../shared/redis/connect.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { proveWith } from "../../../shared/redis/prover.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { asUser, useRedis } from "../../fixtures/redis.ts";
import { unproven } from "../../support/unproven.ts";

const redis = useRedis();
const ends = useEnds();

test("a sign-out that a failover could undo is not reported as done", async () => {
  const connection = connectForWork({ url: new Secret(asUser(redis.url, "operator")) }, silentLogger);
  ends.defer(() => connection.disconnect());
  const token = { name: "otto", role: "operator" as const, token: [new Secret("a-token-of-this-test")] };
  const sessions = createSessions({
    tokens: [token],
    partition: partitionOf(connection),
    isSecure: false,
    sessionMs: 60_000,
    clock: systemClock,
  });
  const { cookie } = await sessions.begin(token);
  const request = { headers: { cookie: cookie.split(";")[0] } } as unknown as IncomingMessage;
  request.rawHeaders = ["Cookie", String(request.headers.cookie)];
  proveWith(connection, unproven);
  await expect(sessions.end(request)).rejects.toMatchObject({ code: "queue.unavailable" });
});
