import { beforeEach } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { connectForRequests } from "../../../shared/redis/connect.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { whenReady } from "../../../shared/redis/ready.ts";
import type { Rejection } from "../../../shared/telemetry/rejected/entry.ts";
import { createRejectedList, type RejectedRequest } from "../../../shared/telemetry/rejected/list.ts";
import { createRecordRejected } from "../../../shared/telemetry/rejected/record.ts";
import { useEnds } from "../../fixtures/ends.ts";
import type { TestRedis } from "../../fixtures/redis.ts";
import { sentRequest } from "../../support/sent-request.ts";

export const KEPT_BODY = Buffer.from('{"a":1}\u0000');

/**
 * Makes three refused requests before each test, a second apart: two at /a, the second with its body, and one at an
 * unknown path.
 */
export function useRejections(
  redis: TestRedis,
  { reason = "too long", body = KEPT_BODY }: Partial<Pick<Rejection, "reason" | "body">> = {},
): { newest: readonly RejectedRequest[] } {
  const ends = useEnds();
  const rejections: { newest: readonly RejectedRequest[] } = { newest: [] };
  beforeEach(async () => {
    await redis.client.flushdb();
    const connection = connectForRequests({ url: new Secret(redis.url) }, silentLogger);
    ends.defer(() => connection.disconnect());
    await whenReady(connection, 5000);
    let now = Date.now() - 3_600_000;
    const record = createRecordRejected({
      partition: partitionOf(connection),
      endpoints: 1,
      clock: () => now,
    });
    const refused: [string | undefined, Partial<Rejection>][] = [
      [
        "/a",
        {
          bytes: 12,
          delivery: "d-1",
          signatures: { came: [], wanted: ["Stripe-Signature"], kind: "digest" },
        },
      ],
      ["/a", { code: "request.too_large", reason, body }],
      [undefined, { code: "request.not_found", reason: "differs from /a by case" }],
    ];
    for (const [endpoint, over] of refused) {
      now += 1000;
      const req = sentRequest("/a?token=hidden", { "X-Key": "hidden" });
      const code = "webhook.credential_rejected";
      record(endpoint, "192.0.2.1", () => ({ req, code, reason: "missing", ...over }));
    }
    const { matching } = createRejectedList(redis.partition);
    await eventually("they are recorded", async () => {
      rejections.newest = (await matching({}, 10)).newest;
      return rejections.newest.length === refused.length;
    });
  });
  return rejections;
}
