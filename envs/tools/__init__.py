"""Environments in which the agent calls tools."""
