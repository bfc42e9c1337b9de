import { useState } from "preact/hooks";
import { askBytes, type Refused, toRefused } from "./ask.ts";
import type { AskedAt, PathOf } from "./contract.ts";
import { useRetry, wasTurnedAway } from "./use-retry.ts";

type Bytes = {
  body: Uint8Array | undefined;
  refused: Refused | undefined;
  isBusy: boolean;
  load(): Promise<void>;
};

/**
 * Bytes that are fetched only when somebody asks for them. If their answer breaks off, somebody has to ask again: the service cuts off a
 * reader that is too slow, and each request reads all of the bytes and is noted in the audit.
 */
export function useBytes<P extends PathOf<"GET">>(path: P, asked: AskedAt<"GET", P>): Bytes {
  const [body, setBody] = useState<Uint8Array | undefined>();
  const [refused, setRefused] = useState<Refused | undefined>();
  const [isBusy, setBusy] = useState(false);
  const load = async () => {
    setBusy(true);
    try {
      setBody(await askBytes(path, asked));
      setRefused(undefined);
    } catch (error) {
      setRefused(toRefused(error));
    }
    setBusy(false);
  };
  useRetry(refused, () => void load(), wasTurnedAway);
  return { body, refused, isBusy, load };
}
