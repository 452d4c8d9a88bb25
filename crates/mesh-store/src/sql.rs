//! Reads just enough SQL to tell what a migration may not hold: nothing at all, or its own transaction.
//!
//! Never validates SQL: PostgreSQL does. It knows comments, quotes and dollar quotes, so that a word inside them
//! is not taken for a statement.
//! Called by: `migrate::list`.

/// Why a text cannot run as one migration in one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// No statement: empty, or nothing but spaces, comments and semicolons.
    Empty,
    /// A statement that ends, begins or cannot live in a transaction.
    Transaction(&'static str),
}

/// Statements that begin or end a transaction. `END` also closes an SQL function's `BEGIN ATOMIC` body; such a
/// body must be written in dollar quotes instead.
const OWN_TRANSACTION: [&str; 9] =
    ["BEGIN", "START", "COMMIT", "ROLLBACK", "END", "ABORT", "SAVEPOINT", "RELEASE", "VACUUM"];

/// Checks a migration's text.
pub(crate) fn check(sql: &str) -> Result<(), Unfit> {
    let statements = statements(sql);
    if statements.is_empty() {
        return Err(Unfit::Empty);
    }
    for words in &statements {
        let has = |wanted: &str| words.iter().any(|word| word == wanted);
        if let Some(first) = words.first()
            && let Some(found) = OWN_TRANSACTION.into_iter().find(|word| first == word)
        {
            return Err(Unfit::Transaction(found));
        }
        if has("CONCURRENTLY") {
            return Err(Unfit::Transaction("CONCURRENTLY"));
        }
        // It would make the server wait for data on a connection that brings none.
        if has("COPY") && has("STDIN") {
            return Err(Unfit::Transaction("COPY FROM STDIN"));
        }
    }
    Ok(())
}

/// The statements of a text, each as its bare words in upper case. What is quoted leaves an empty word.
fn statements(sql: &str) -> Vec<Vec<String>> {
    let mut statements = vec![Vec::new()];
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let (taken, word) = match first {
            ';' => {
                statements.push(Vec::new());
                rest = &rest[1..];
                continue;
            }
            _ if first.is_whitespace() => (first.len_utf8(), None),
            '-' if rest.starts_with("--") => (rest.find('\n').unwrap_or(rest.len()), None),
            '/' if rest.starts_with("/*") => (comment(rest), None),
            '\'' => (quoted(rest, '\'', false), Some("")),
            '"' => (quoted(rest, '"', false), Some("")),
            'e' | 'E' if rest[1..].starts_with('\'') => (1 + quoted(&rest[1..], '\'', true), Some("")),
            '$' if dollar_tag(rest).is_some() => (dollar_quoted(rest), Some("")),
            _ if first.is_alphabetic() || first == '_' => {
                let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'));
                let end = end.unwrap_or(rest.len());
                (end, Some(&rest[..end]))
            }
            _ => (first.len_utf8(), Some("")),
        };
        if let Some(word) = word
            && let Some(statement) = statements.last_mut()
        {
            statement.push(word.to_uppercase());
        }
        rest = &rest[taken..];
    }
    statements.retain(|words| !words.is_empty());
    statements
}

/// The length of the block comment that `text` begins with; block comments nest.
fn comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The length of the quoted text that `text` begins with. A doubled quote is two texts side by side, which is the
/// same for us.
fn quoted(text: &str, quote: char, backslash: bool) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if backslash && c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + 1;
        }
    }
    text.len()
}

/// `$$` or `$tag$`, if `text` begins with one; `$1` is a parameter and none.
fn dollar_tag(text: &str) -> Option<&str> {
    let end = text[1..].find('$')? + 1;
    let name = &text[1..end];
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    is_name.then(|| &text[..=end])
}

fn dollar_quoted(text: &str) -> usize {
    let Some(tag) = dollar_tag(text) else { return 1 };
    text[tag.len()..].find(tag).map_or(text.len(), |at| at + 2 * tag.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_space_and_comments_is_empty() {
        for text in
            ["", " \n\t", ";;", "-- CREATE TABLE a ()", "/* a /* nested */ SELECT 1 */ ; -- end", "-- é\n/*"]
        {
            assert_eq!(check(text), Err(Unfit::Empty), "{text:?}");
        }
    }

    #[test]
    fn its_own_transaction_is_found_in_any_spelling() {
        for (text, found) in [
            ("begin; CREATE TABLE a (); commit", "BEGIN"),
            ("CREATE TABLE a ();\n  CoMMit ;", "COMMIT"),
            ("/* x */ START TRANSACTION", "START"),
            ("SELECT 'a;b'; ROLLBACK", "ROLLBACK"),
            ("SELECT E'it\\'s'; END", "END"),
            ("CREATE INDEX concurrently i ON a (b)", "CONCURRENTLY"),
            ("COPY a FROM stdin", "COPY FROM STDIN"),
            ("VACUUM a", "VACUUM"),
        ] {
            assert_eq!(check(text), Err(Unfit::Transaction(found)), "{text:?}");
        }
    }

    #[test]
    fn a_quoted_or_inner_word_is_not_a_statement() {
        for text in [
            "SELECT 'COMMIT; BEGIN'",
            "SELECT 'it''s; COMMIT'",
            "SELECT E'\\'; COMMIT; '",
            "CREATE TABLE \"a;COMMIT\" ()",
            "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $body$ BEGIN; COMMIT; END $body$",
            "DO $$ BEGIN PERFORM 1; END $$",
            "CREATE TABLE a (commit int, \"concurrently\" text)",
            "SELECT $1; SELECT 1 -- ; COMMIT",
        ] {
            assert_eq!(check(text), Ok(()), "{text:?}");
        }
    }
}
