import { beforeEach, expect, test } from "vitest";
import { createCallerNonces } from "../../../../services/x402-gateway/payment/caller-nonces.ts";
import { callIdFrom, randomCallId } from "../../../../shared/call/call-id.ts";
import type { RetryWrite } from "../../../../shared/redis/retry-write.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { partitionsOver } from "../../../support/partitions.ts";

const redis = useRedis();
beforeEach(() => redis.client.flushdb());

const HASH = "ab".repeat(32);

function nonces() {
  const partitions = partitionsOver(redis.client, 4);
  const beginWrite = (): RetryWrite => (write) => write("small");
  const home = partitions.of(callIdFrom(HASH)).index;
  const idIn = (isHome: boolean): string => {
    const id = randomCallId();
    return (partitions.of(id).index === home) === isHome ? id : idIn(isHome);
  };
  return { idIn, ...createCallerNonces(partitions.map((partition) => ({ partition, beginWrite }))) };
}

const nonce = (keptUntil = Date.now() + 60_000) => ({ hash: HASH, keptUntil });

test("copies of one payment share a reservation; no other payment gets it until the payment is void", async () => {
  const { reserve, free, isUsed, idIn } = nonces();
  const [payment, other] = [idIn(false), idIn(false)];
  expect(await Promise.all([reserve(payment, nonce()), reserve(payment, nonce())])).toEqual(["", ""]);
  expect(await reserve(other, nonce())).toBe("NONCE_USED");
  await free(other, HASH); // another payment cannot free the nonce
  expect(await reserve(other, nonce())).toBe("NONCE_USED");
  expect([await isUsed(HASH), await reserve(payment, nonce())]).toEqual([true, ""]);

  await free(payment, HASH);
  expect([await isUsed(HASH), await reserve(other, nonce())]).toEqual([false, ""]);
});

test("a payment in the nonce's partition reserves nothing, because its claim uses up the nonce", async () => {
  const { reserve, isUsed, idIn } = nonces();
  expect([await reserve(idIn(true), nonce()), await isUsed(HASH)]).toEqual([undefined, false]);
});

test("a nonce that Redis could no longer remember is refused as expired, and is not reserved", async () => {
  const { reserve, isUsed, idIn } = nonces();
  expect([await reserve(idIn(false), nonce(Date.now() - 1)), await isUsed(HASH)]).toEqual([
    "NONCE_EXPIRED",
    false,
  ]);
});
