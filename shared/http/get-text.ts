import { createHttpClient, isTimeout } from "./client.ts";

type Options = {
  headers?: Readonly<Record<string, string>>;
  bytesMax: number;
  /** Time limit for the connection, the request and the whole answer. */
  timeoutMs: number;
  /** Trusted certificate authorities in PEM, instead of the system's. */
  ca?: string | undefined;
};

/**
 * Fetches the text at a URL, and asks the server to send it without compression (`accept-encoding: identity`). Any
 * status other than 200 is an error, including a redirect. The message of an error contains neither the URL nor the
 * headers, because they may be secret.
 */
export async function getText(
  { origin, pathname, search }: URL,
  { headers, bytesMax, timeoutMs, ca }: Options,
): Promise<string> {
  const client = createHttpClient({
    base: new URL(origin),
    headers: { ...headers, "accept-encoding": "identity" },
    answerBytesMax: bytesMax,
    ca,
  });
  try {
    const answer = await client.exchange({ path: `${pathname}${search}`, body: undefined, timeoutMs });
    if (answer.status !== 200) throw new NoText(`status ${answer.status}`);
    if (answer.text === undefined) throw new NoText(`the answer is longer than ${bytesMax} bytes`);
    return answer.text;
  } catch (error) {
    if (error instanceof NoText) throw error;
    if (isTimeout(error)) throw new NoText(`no answer within ${timeoutMs} ms`, { cause: error });
    const { code, name } = error as NodeJS.ErrnoException;
    throw new NoText(`the request failed (${code ?? name})`, { cause: error });
  } finally {
    await client.close();
  }
}

class NoText extends Error {}
