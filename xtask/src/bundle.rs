//! `bundle`: the images and the bundle a host carries. Not built yet; it says so and fails.

/// `cargo xtask bundle [ARGUMENTS…]`.
pub(crate) fn run(_args: &[String]) -> anyhow::Result<()> {
    anyhow::bail!("the bundle is not built yet")
}
