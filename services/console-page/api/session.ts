import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { SessionView } from "../../../shared/console/contract/session.ts";
import { Refused, request } from "./ask.ts";

export type { SessionView };

const CurrentSession = createContext<SessionView | undefined>(undefined);
export const SessionProvider = CurrentSession.Provider;

export function useMayOperate(): boolean {
  return useContext(CurrentSession)?.role === "operator";
}

export const useSession = (): SessionView | undefined => useContext(CurrentSession);

/** Reads the session; returns undefined if the user is not signed in. */
export async function readSession(): Promise<SessionView | undefined> {
  try {
    return await request("GET", "session", {});
  } catch (error) {
    if (error instanceof Refused && error.status === 401) return undefined;
    throw error;
  }
}

/**
 * Sends the token to the console, which answers with a session cookie that no script can read. The page does not keep
 * the token.
 */
export function signIn(token: string): Promise<SessionView> {
  return request("POST", "session", { token });
}

export function signOut(): Promise<unknown> {
  return request("DELETE", "session", {});
}
